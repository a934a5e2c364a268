import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withValues } from "./chart_readme.ts";
import { dashboardFile } from "./dashboard/dashboard.ts";

/** A file of the chart that is made from another file of the project; both paths from its top. */
type Copy = { from: string; to: string; change?: (text: string) => string };

/** A file of the chart as it is and as it should be. */
export type ChartFile = { path: string; is: string | undefined; should: string };

const CHART = "charts/deputize";
const ICON = "src/console/style/icon.svg";
/** Neither Helm nor Argo CD takes the definitions away: all objects would go with them. */
const KEPT = [
  "  annotations:",
  "    helm.sh/resource-policy: keep",
  "    argocd.argoproj.io/sync-options: Prune=false,Delete=false",
];

/** Files that the chart has of others: a chart can only hold what is in its folder. */
const COPIES: readonly Copy[] = [
  ...["platforms", "agents", "delegations"].map((resource) => ({
    from: `crds/${resource}.yaml`,
    to: `${CHART}/crds/${resource}.yaml`,
    change: keepForEver,
  })),
  { from: "crds/policies.yaml", to: `${CHART}/files/policies.yaml` },
  ...["api", "events", "migrate", "operator", "vault"].map((part) => ({
    from: `docs/alerts/${part}.rules.yaml`,
    to: `${CHART}/files/rules/${part}.yaml`,
  })),
];

/** Files that are made of no other file. */
const MADE = [{ path: `${CHART}/files/dashboard.json`, should: dashboardFile() }];

/** The made files of the chart in the project at `root`. */
export async function chartFiles(root: string): Promise<ChartFile[]> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const icon = await readFile(join(root, ICON), "base64");
  const values = await readFile(join(root, `${CHART}/values.yaml`), "utf8");
  const [chart, readme] = [`${CHART}/Chart.yaml`, `${CHART}/README.md`];
  const copies: Copy[] = [
    ...COPIES,
    { from: chart, to: chart, change: (text) => withIcon(ofVersion(text, version), icon) },
    { from: readme, to: readme, change: (text) => withValues(text, values) },
  ];
  const made = copies.map(async ({ from, to, change = (text) => text }) => ({
    path: to,
    should: change(await readFile(join(root, from), "utf8")),
  }));
  return Promise.all(
    [...MADE, ...(await Promise.all(made))].map(async ({ path, should }) => ({
      path,
      is: await readFile(join(root, path), "utf8").catch(() => undefined),
      should,
    })),
  );
}

/** Those that are not as they should be, and definitions that have no source any more. */
export async function staleChartFiles(root: string): Promise<string[]> {
  const files = await chartFiles(root);
  const made = new Set(files.map(({ path }) => path));
  const definitions = await readdir(join(root, CHART, "crds"));
  const strangers = definitions.map((name) => `${CHART}/crds/${name}`).filter((path) => !made.has(path));
  return [...files.filter(({ is, should }) => is !== should).map(({ path }) => path), ...strangers];
}

/** Writes those that are not as they should be, and says which. */
export async function writeChartFiles(root: string): Promise<string[]> {
  const stale = (await chartFiles(root)).filter(({ is, should }) => is !== should);
  for (const { path, should } of stale) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), should);
  }
  return stale.map(({ path }) => path);
}

function keepForEver(definition: string): string {
  const changed = definition.replace(/^metadata:\n {2}name: .*$/m, (found) => [found, ...KEPT].join("\n"));
  if (changed === definition) throw new Error("A definition does not begin its metadata with its name");
  return changed;
}

/** The icon is part of the chart, so that a catalog shows it without asking another server. */
function withIcon(text: string, icon: string): string {
  return text.replace(/^icon: .*$/m, `icon: data:image/svg+xml;base64,${icon}`);
}

/** The chart has the version of the program that it installs. */
function ofVersion(text: string, version: string): string {
  return text.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`);
}
