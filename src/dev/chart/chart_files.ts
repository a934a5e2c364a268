import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withValues } from "./chart_readme.ts";
import { dashboardFile } from "./dashboard/dashboard.ts";
import { type SchemaSources, withGeneratedParts } from "./values_schema.ts";

/** A chart file to generate from another file. Both paths are relative to the project's root. */
type Copy = { from: string; to: string; change?: (text: string) => string };

/** The current content of a generated chart file and the content that it should have. */
export type ChartFile = { path: string; current: string | undefined; expected: string };

const CHART = "charts/deputize";
const ICON = "src/console/style/icon.svg";
/**
 * Keeps Helm and Argo CD from deleting the custom resource definitions, which would delete every object too.
 */
const KEEP_ANNOTATIONS = [
  "  annotations:",
  "    helm.sh/resource-policy: keep",
  "    argocd.argoproj.io/sync-options: Prune=false,Delete=false",
];

/** Chart files that are copies of other files, since a chart can use only files in its own folder. */
const COPIES: readonly Copy[] = [
  ...["platforms", "agents", "delegations"].map((resource) => ({
    from: `crds/${resource}.yaml`,
    to: `${CHART}/crds/${resource}.yaml`,
    change: withKeepAnnotations,
  })),
  { from: "crds/policies.yaml", to: `${CHART}/files/policies.yaml` },
  ...["api", "events", "migrate", "operator", "vault"].map((part) => ({
    from: `docs/alerts/${part}.rules.yaml`,
    to: `${CHART}/files/rules/${part}.yaml`,
  })),
];

/** Pages that describe settings, and templates that set some. */
export const SETTINGS = [
  "docs/settings.md",
  "docs/keyvault_reference.md",
  `${CHART}/templates/_settings.tpl`,
  `${CHART}/templates/keyvault/_keyvault.tpl`,
];

const GENERATED = [{ path: `${CHART}/files/dashboard.json`, expected: dashboardFile() }];

/** Returns every generated chart file of the project at `root`. */
export async function chartFiles(root: string): Promise<ChartFile[]> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const icon = await readFile(join(root, ICON), "base64");
  const values = await readFile(join(root, `${CHART}/values.yaml`), "utf8");
  const [chart, readme] = [`${CHART}/Chart.yaml`, `${CHART}/README.md`];
  const schema = `${CHART}/values.schema.json`;
  const sources = await schemaSources(root, values);
  const copies: Copy[] = [
    ...COPIES,
    { from: chart, to: chart, change: (text) => withIcon(withVersion(text, version), icon) },
    { from: readme, to: readme, change: (text) => withValues(text, values) },
    { from: schema, to: schema, change: (text) => withGeneratedParts(text, sources) },
  ];
  const generated = copies.map(async ({ from, to, change = (text) => text }) => ({
    path: to,
    expected: change(await readFile(join(root, from), "utf8")),
  }));
  return Promise.all(
    [...GENERATED, ...(await Promise.all(generated))].map(async ({ path, expected }) => ({
      path,
      current: await readFile(join(root, path), "utf8").catch(() => undefined),
      expected,
    })),
  );
}

async function schemaSources(root: string, values: string): Promise<SchemaSources> {
  const [settings = "", vaultSettings = "", ...templates] = await Promise.all(
    SETTINGS.map((path) => readFile(join(root, path), "utf8")),
  );
  return { values, settings, vaultSettings, templates: templates.join("\n") };
}

/** Returns the paths of outdated chart files, and of copied definitions whose source no longer exists. */
export async function staleChartFiles(root: string): Promise<string[]> {
  const files = await chartFiles(root);
  const generated = new Set(files.map(({ path }) => path));
  const definitions = await readdir(join(root, CHART, "crds"));
  const orphans = definitions.map((name) => `${CHART}/crds/${name}`).filter((path) => !generated.has(path));
  return [
    ...files.filter(({ current, expected }) => current !== expected).map(({ path }) => path),
    ...orphans,
  ];
}

/** Writes the outdated chart files and returns their paths. */
export async function writeChartFiles(root: string): Promise<string[]> {
  const stale = (await chartFiles(root)).filter(({ current, expected }) => current !== expected);
  for (const { path, expected } of stale) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), expected);
  }
  return stale.map(({ path }) => path);
}

function withKeepAnnotations(definition: string): string {
  const changed = definition.replace(/^metadata:\n {2}name: .*$/m, (found) =>
    [found, ...KEEP_ANNOTATIONS].join("\n"),
  );
  if (changed === definition) {
    throw new Error("The metadata of a custom resource definition must begin with its name");
  }
  return changed;
}

/** Embeds the icon in the chart, so a catalog can show it without a request to another server. */
function withIcon(text: string, icon: string): string {
  return text.replace(/^icon: .*$/m, `icon: data:image/svg+xml;base64,${icon}`);
}

function withVersion(text: string, version: string): string {
  return text.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`);
}
