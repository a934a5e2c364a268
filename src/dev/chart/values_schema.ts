import { parse } from "yaml";

type Node = {
  $ref?: string;
  type?: string;
  description?: string;
  properties?: Record<string, Node>;
  patternProperties?: Record<string, Node>;
  additionalProperties?: boolean | Node;
  required?: string[];
};
type Schema = Node & { $defs: Record<string, Node> };

/** Texts of the files from which parts of the schema follow. `templates` are those that set settings. */
export type SchemaSources = { values: string; settings: string; vaultSettings: string; templates: string };

/** Roles with values for further settings. */
const ROLES = ["api", "worker", "operator", "migrate"];
/** Fields of Kubernetes, which a user may remove one by one. */
const REMOVABLE = "resources";
/** Settings that the values may override, although a template sets them. */
const DEFAULTS = /\{\{- define "deputize\.trialSettings" -\}\}.*?\{\{- end -\}\}/s;

/**
 * Returns the schema of the chart's values with its generated parts. It requires every value that has a
 * default, so that null never removes one, and describes all settings that a role may be given.
 */
export function withGeneratedParts(text: string, sources: SchemaSources): string {
  const schema = JSON.parse(text) as Schema;
  const templates = sources.templates.replace(DEFAULTS, "");
  const rows = settingRows(sources.settings);
  for (const role of ROLES) {
    const own = rows.filter(([, , roles = ""]) => roles.split(", ").includes(role));
    schema.$defs[`${role}Settings`] = settingsNode(own, templates);
  }
  const vault = settingRows(sources.vaultSettings).map(([start = "", names = "", ...others]) => [
    start,
    names,
    "vault",
    ...others,
  ]);
  schema.$defs.keyvaultSettings = settingsNode(vault, templates);
  requireDefaults(schema, parse(sources.values));
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** Returns the cells of all tables of a page that start with a column `setting`. */
export function settingRows(page: string): string[][] {
  const tables = [...page.matchAll(/^\| setting \|.*\n\|[-|]+\|\n((?:\|.*\n?)*)/gm)];
  const lines = tables.flatMap(([, body = ""]) => body.trimEnd().split("\n"));
  return lines.map((line) => line.split("|").map((cell) => cell.trim()));
}

/** Returns the names in a table's first column. */
export function settingNames(named: string): string[] {
  return [...named.matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name = ""]) => name);
}

/**
 * Returns the schema of a role's further settings. It lists no setting that a template sets. It accepts their
 * names only because the template refuses them with advice.
 */
function settingsNode(rows: string[][], templates: string): Node {
  const isSet = (name: string) => new RegExp(`\\b${name}(_FILE)?\\b`).test(templates);
  const described = rows.flatMap(([, names = "", , , meaning = ""]) =>
    settingNames(names).map((name): [string, string] => [name, plain(meaning)]),
  );
  const own = described.filter(([name]) => !isSet(name));
  const refused = described.filter(([name]) => isSet(name)).map(([name]) => name);
  return {
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(own.map(([name, description]) => [name, { type: "string", description }])),
    patternProperties: { [`^(${refused.sort().join("|")})(_FILE)?$`]: { type: "string" } },
  };
}

/** Returns a cell of a table without its links. */
function plain(cell: string): string {
  return cell.replace(/\s*\(\[[^\]]*\]\([^)]*\)\)/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
}

/** Requires each property that has a default in all places where the values use its map. */
function requireDefaults(schema: Schema, defaults: unknown): void {
  const places = new Map<Node, string[][]>();
  const visit = (node: Node | undefined, value: unknown): void => {
    const own = node?.$ref === undefined ? node : schema.$defs[node.$ref.replace("#/$defs/", "")];
    if (own?.properties === undefined || typeof value !== "object" || value === null) return;
    places.set(own, [...(places.get(own) ?? []), Object.keys(value)]);
    for (const [name, inner] of Object.entries(value)) visit(own.properties[name], inner);
  };
  visit(schema, defaults);
  places.delete(schema.$defs[REMOVABLE] ?? {});
  for (const [node, found] of places) {
    const required = Object.keys(node.properties ?? {}).filter((name) =>
      found.every((names) => names.includes(name)),
    );
    if (required.length > 0) node.required = required;
  }
}
