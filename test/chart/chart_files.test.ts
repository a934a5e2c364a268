import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { chartFiles, staleChartFiles, writeChartFiles } from "../../src/dev/chart/chart_files.ts";

const ROOT = join(import.meta.dirname, "../..");
let copy: string;

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "deputize-chart-files-"));
  const made = new Set([
    ...(await chartFiles(ROOT)).map(({ path }) => path),
    "package.json",
    "crds",
    "docs/alerts",
  ]);
  for (const path of [...made, "charts"]) await cp(join(ROOT, path), join(copy, path), { recursive: true });
});
afterAll(() => rm(copy, { recursive: true, force: true }));

test("the chart's copies are as npm run chart makes them", async () => {
  expect(await staleChartFiles(ROOT), "run `npm run chart`").toEqual([]);
});

test("definitions of the chart are those of crds/, and nothing takes them away", async () => {
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

test.each(["crds/platforms.yaml", "crds/policies.yaml"])(
  "a change of %s is seen, and written",
  async (path) => {
    await writeFile(join(copy, path), `${await readFile(join(copy, path), "utf8")}# changed\n`);
    const stale = await staleChartFiles(copy);
    expect(stale).toHaveLength(1);
    expect(await writeChartFiles(copy)).toEqual(stale);
    expect(await staleChartFiles(copy)).toEqual([]);
  },
);

test("a definition without a source is seen", async () => {
  const stranger = "charts/deputize/crds/stranger.yaml";
  await writeFile(join(copy, stranger), "kind: CustomResourceDefinition\n");
  expect(await staleChartFiles(copy)).toEqual([stranger]);
});
