import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { chartFiles, SETTINGS, staleChartFiles, writeChartFiles } from "../../src/dev/chart/chart_files.ts";
import { withValues } from "../../src/dev/chart/chart_readme.ts";

const ROOT = join(import.meta.dirname, "../..");
const LICENSED = { version: "0.1.0", license: "Apache-2.0" };
let copy: string;

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "deputize-chart-files-"));
  const made = new Set([
    ...(await chartFiles(ROOT)).map(({ path }) => path),
    "package.json",
    "crds",
    "docs/alerts",
    ...SETTINGS,
    "src/console/style/icon.svg",
  ]);
  for (const path of [...made, "charts"]) await cp(join(ROOT, path), join(copy, path), { recursive: true });
});
afterAll(() => rm(copy, { recursive: true, force: true }));

test("the chart's generated files match the output of npm run chart", async () => {
  expect(await staleChartFiles(ROOT), "run `npm run chart`").toEqual([]);
});

test("the chart's definitions equal those in crds/, and no tool deletes them", async () => {
  for (const resource of ["platforms", "agents", "delegations"]) {
    const read = async (path: string) => parse(await readFile(join(ROOT, path), "utf8"));
    const [ours, source] = [
      await read(`charts/deputize/crds/${resource}.yaml`),
      await read(`crds/${resource}.yaml`),
    ];
    expect(ours.spec).toEqual(source.spec);
    expect(ours.metadata.annotations).toEqual({
      "helm.sh/resource-policy": "keep",
      "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    });
  }
});

test("package, workspaces and chart have the same version and license", async () => {
  const chart = parse(await readFile(join(ROOT, "charts/deputize/Chart.yaml"), "utf8"));
  const { version, annotations } = chart;
  expect({ version, license: annotations["artifacthub.io/license"] }).toEqual(LICENSED);
  expect(chart.appVersion).toBe(version);
  for (const folder of [".", "src", "keyvault"]) {
    expect(JSON.parse(await readFile(join(ROOT, folder, "package.json"), "utf8"))).toMatchObject(LICENSED);
  }
});

test("the chart's README lists each value with its default and comment", async () => {
  const readme = await readFile(join(ROOT, "charts/deputize/README.md"), "utf8");
  expect(readme).toContain("| `api.replicas` | `2` |");
  expect(readme).toMatch(/\| `smtp\.existingSecret\.key` \| `url` \|/);
  expect(readme).toMatch(/\| `database\.ca` \| `\{ existingSecret: .*\}` \| [A-Z].*sslmode/);
  expect(() => withValues("# A chart", "a: 1")).toThrow("needs a line");
  expect(withValues("# A\n\n## Values\nold", "# --- a ---\n# One.\na:\n  # <b>|c\n  d: x|y\n")).toBe(
    "# A\n\n## Values\n\n### a\n\nOne.\n\n| value | default | description |\n|---|---|---|\n| `a.d` | `x\\|y` | &lt;b>\\|c |\n",
  );
});

test.each(["crds/platforms.yaml", "crds/policies.yaml", "charts/deputize/values.yaml"])(
  "npm run chart detects a change to %s and updates the chart's copy",
  async (path) => {
    await writeFile(join(copy, path), `${await readFile(join(copy, path), "utf8")}\nchanged: true\n`);
    const stale = await staleChartFiles(copy);
    expect(stale).toHaveLength(1);
    expect(await writeChartFiles(copy)).toEqual(stale);
    expect(await staleChartFiles(copy)).toEqual([]);
  },
);

test("npm run chart detects a definition in the chart that has no source", async () => {
  const stranger = "charts/deputize/crds/stranger.yaml";
  await writeFile(join(copy, stranger), "kind: CustomResourceDefinition\n");
  expect(await staleChartFiles(copy)).toEqual([stranger]);
});
