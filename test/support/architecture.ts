import { posix } from "node:path";
import { parseSync } from "vite";
import { type Node, walk } from "./syntax.ts";

/** `path` is relative to the top folder, with forward slashes. */
export type SourceFile = {
  path: string;
  text: string;
};

type Contents = {
  /** Project files that this file imports or re-exports in any form, including types. */
  imports: string[];
  readsTime: boolean;
  readsEnvironment: boolean;
};

const FEATURES = [
  "accounts",
  "organizations",
  "platforms",
  "connect",
  "channels",
  "delegations",
  "proofs",
  "history",
  "events",
  "webhooks",
  "deliveries",
  "clusters",
  "installation",
];

/** Layers of `src`, lowest first. A layer may import only from earlier layers in this list. */
const LEVELS: readonly (readonly string[])[] = [
  ["protocol"],
  [
    "clock.ts",
    "concurrency",
    "config.ts",
    "errors.ts",
    "html",
    "etag.ts",
    "describe_fault.ts",
    "ids.ts",
    "log.ts",
    "metrics.ts",
    "input",
    // The API and the operator share this contract of the calls from the operator.
    "operator_calls.ts",
    "route.ts",
    "secret_box.ts",
    "trace_context.ts",
  ],
  ["db", "vault", "kubernetes"],
  ["rates"],
  FEATURES,
  ["http", "operator", "sdk", "plugin"],
  ["console"],
  ["main.ts", "api.ts", "roles.ts", "upkeep.ts", "worker.ts", "dev", "doctor", "check", "commands"],
];

/** Units that may import other units of the same layer. */
const SOCIABLE = new Set([...(LEVELS[1] ?? []), ...FEATURES, ...(LEVELS[7] ?? [])]);

/** Imports that the layers would allow but that are forbidden, with the reason. */
const WITHHELD: readonly { unit: string; from: readonly string[]; why: string }[] = [
  { unit: "operator", from: ["db", "vault", ...FEATURES], why: "the operator knows the API by HTTP only" },
  { unit: "console", from: ["db", "vault"], why: "pages call operations" },
  { unit: "events", from: ["vault"], why: "the worker has no access to the vault" },
  {
    unit: "sdk",
    from: ["db", "vault", ...FEATURES, ...(LEVELS[1] ?? [])],
    why: "it runs in other people's programs",
  },
  {
    unit: "plugin",
    from: ["db", "vault", "kubernetes", ...FEATURES, ...(LEVELS[1] ?? [])],
    why: "it runs on other people's machines",
  },
];

const LONGEST = 300;
const MOST_FILES = 17;
const CLOCKS = new Set([
  ...["src/clock.ts", "src/sdk/clock.ts", "src/plugin/clock.ts", "keyvault/clock.ts"],
  // A pod contains this file alone, so the file cannot import a clock.
  "src/dev/tour/webhook_server.ts",
]);
const CONFIGS = new Set([
  ...["src/config.ts", "src/dev/config.ts", "src/doctor/settings.ts", "keyvault/config.ts"],
  "src/sdk/proxy/config.ts",
]);
const SETUP = /^src\/dev\/(setup\.mjs$|setup\/)/;
const TOP = new Set([
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "LICENSE",
  "SECURITY.md",
  ...["package.json", "package-lock.json", "tsconfig.json", "README.md", "Dockerfile"],
  ...["charts", "crds", "docs", "keyvault", "node_modules", "src", "test"],
]);
const SOURCE = /\.(ts|mts|mjs|js)$/;
/** Forbidden words. They are assembled from parts, so that this file does not contain them. */
export const LATER_WORDS = [
  ["TO", "DO"],
  ["FIX", "ME"],
  ["X", "XX"],
].map((parts) => parts.join(""));
const LATER = new RegExp(`\\b(${LATER_WORDS.join("|")})\\b`);

/** Returns a line for every violation of the architecture rules. */
export function violations(files: readonly SourceFile[]): string[] {
  const found: string[] = [];
  const imports = new Map<string, string[]>();
  for (const file of files) {
    found.push(...aboutText(file));
    if (/^(src|keyvault)\//.test(file.path) && SOURCE.test(file.path)) {
      const contents = read(file);
      imports.set(file.path, contents.imports);
      found.push(
        ...aboutSource(file, contents),
        ...contents.imports.flatMap((to) => aboutImport(file.path, to)),
      );
    }
  }
  const folders = [...siblingImports(imports).values()].flatMap((between) => shortestCycles(between));
  return [
    ...found,
    ...shortestCycles(imports).map((way) => `import cycle of files: ${way}`),
    ...folders.map((way) => `import cycle of folders: ${way}`),
    ...crowded([...imports.keys()]),
  ];
}

const BENCH_RESULTS = "bench-results";

/** Returns the names that do not belong in the top folder. `npm pack` and `npm run bench` may write there. */
export function strangersAtTop(names: readonly string[]): string[] {
  const isLeft = (name: string) => name.endsWith(".tgz") || name === BENCH_RESULTS;
  return names.filter((name) => !TOP.has(name) && !name.startsWith(".") && !isLeft(name));
}

function aboutText({ path, text }: SourceFile): string[] {
  const line = text.split("\n").findIndex((content) => LATER.test(content));
  return [
    ...(line === -1 ? [] : [`${path}:${line + 1} contains a note about later work`]),
    ...(/^[a-z0-9_./-]+$/.test(path) || !/^(src|keyvault|test)\//.test(path)
      ? []
      : [`${path} is not in lower case with underscores`]),
  ];
}

function aboutSource({ path, text }: SourceFile, { readsTime, readsEnvironment }: Contents): string[] {
  const lines = text.trimEnd().split("\n").length;
  return [
    ...(lines > LONGEST ? [`${path} has ${lines} lines`] : []),
    ...(readsTime && !CLOCKS.has(path) ? [`${path} reads the time`] : []),
    ...(readsEnvironment && !CONFIGS.has(path) && !SETUP.test(path) ? [`${path} reads the environment`] : []),
  ];
}

function aboutImport(from: string, to: string): string[] {
  const line = `${from} imports ${to}`;
  const [fromTop, fromUnit = ""] = from.split("/");
  const [toTop, toUnit = ""] = to.split("/");
  if (fromTop === "keyvault") {
    const allowed = toTop === "keyvault" || to.startsWith("src/protocol/");
    return allowed ? [] : [`${line}: the vault may import only the protocol from src`];
  }
  if (toTop !== "src") {
    return [`${line}: src may not import from outside src`];
  }
  if (fromUnit === toUnit) {
    return [];
  }
  const [fromLevel, toLevel] = [levelOf(fromUnit), levelOf(toUnit)];
  if (fromLevel === -1) {
    return [`${line}: ${fromUnit} is missing in the layers of src`];
  }
  if (toLevel === -1 || toLevel > fromLevel || (toLevel === fromLevel && !SOCIABLE.has(fromUnit))) {
    return [`${line}: it is in a higher layer`];
  }
  const rule = WITHHELD.find(({ unit, from: withheld }) => unit === fromUnit && withheld.includes(toUnit));
  return rule === undefined ? [] : [`${line}: ${rule.why}`];
}

function levelOf(unit: string): number {
  return LEVELS.findIndex((units) => units.includes(unit));
}

function crowded(paths: readonly string[]): string[] {
  const counts = Map.groupBy(paths, (path) => posix.dirname(path));
  return [...counts]
    .filter(([, files]) => files.length > MOST_FILES)
    .map(([folder, files]) => `${folder} has ${files.length} files`);
}

/** Returns, for each folder, the imports between its subfolders, including imports of types. */
function siblingImports(imports: ReadonlyMap<string, readonly string[]>): Map<string, Map<string, string[]>> {
  const found = new Map<string, Map<string, string[]>>();
  for (const [from, to] of [...imports].flatMap(([from, targets]) =>
    targets.map((to) => [from, to] as const),
  )) {
    const [ours, theirs] = [from.split("/"), to.split("/")];
    const depth = ours.findIndex((part, index) => part !== theirs[index]);
    if (depth === -1 || ours.length === depth + 1 || theirs.length === depth + 1) continue;
    const parent = ours.slice(0, depth).join("/");
    const between = found.get(parent) ?? new Map<string, string[]>();
    const folder = ours.slice(0, depth + 1).join("/");
    found.set(
      parent,
      between.set(folder, [...(between.get(folder) ?? []), theirs.slice(0, depth + 1).join("/")]),
    );
  }
  return found;
}

/**
 * Returns import cycles, no file in two of them, each as a path from its alphabetically first file back to
 * it. Each cycle is a shortest one among the files that are not yet reported.
 */
function shortestCycles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles = [...imports.keys()]
    .sort()
    .map((from) => shortestCycleFrom(from, imports) ?? [])
    .sort((one, other) => one.length - other.length);
  const reported = new Set<string>();
  return cycles
    .filter((cycle) => {
      const isNew = cycle.length > 0 && cycle.every((path) => !reported.has(path));
      for (const path of isNew ? cycle : []) reported.add(path);
      return isNew;
    })
    .map((cycle) => cycle.join(" -> "));
}

function shortestCycleFrom(
  start: string,
  imports: ReadonlyMap<string, readonly string[]>,
): string[] | undefined {
  const ways = [[start]];
  const seen = new Set<string>();
  for (const way of ways) {
    for (const next of imports.get(way.at(-1) ?? "") ?? []) {
      if (next === start) return [...way, start];
      if (!seen.has(next)) ways.push([...way, next]);
      seen.add(next);
    }
  }
  return undefined;
}

/**
 * Matches text that may read the time or the environment, or import in an expression or a type. Ignores
 * `Date` as a type or with an argument.
 */
const MAY_READ = /\benv\b|\bimport\s*\(|new Date\b(?!\()|\bDate\b(?!\([^)\s]|[;,)>]| \||\[\]| =| })/;

function read({ path, text }: SourceFile): Contents {
  const parsed = parseSync(path, text);
  const { module, errors } = parsed;
  if (errors.length > 0) {
    throw new Error(`${path} cannot be parsed: ${errors[0]?.message}`);
  }
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.map(({ entries }) => entries[0]?.moduleRequest?.value ?? ""),
  ];
  const contents: Contents = { imports: [], readsTime: false, readsEnvironment: false };
  // Building the syntax tree (`parsed.program`) takes most of the time, so only matching files do it.
  walk(MAY_READ.test(text) ? parsed.program : undefined, (node) => {
    contents.readsTime ||= isReadingTime(node);
    contents.readsEnvironment ||= isMember(node, "process", "env") || importsEnvironment(node);
    const source =
      node.type === "ImportExpression" || node.type === "TSImportType" ? literal(node.source) : undefined;
    specifiers.push(...(source === undefined ? [] : [source]));
  });
  contents.imports = locate(path, specifiers);
  return contents;
}

function locate(from: string, specifiers: readonly string[]): string[] {
  const local = specifiers.filter((specifier) => specifier.startsWith("."));
  return [...new Set(local.map((specifier) => posix.join(posix.dirname(from), specifier)))];
}

/** Matches `Date.now`, `new Date()` without an argument, and `Date()`. */
function isReadingTime(node: Node): boolean {
  if (isMember(node, "Date", "now")) {
    return true;
  }
  const creates = node.type === "NewExpression" && (node.arguments as unknown[]).length === 0;
  return (creates || node.type === "CallExpression") && isName(node.callee, "Date");
}

function importsEnvironment(node: Node): boolean {
  const fromProcess =
    node.type === "ImportDeclaration" && /^(node:)?process$/.test(literal(node.source) ?? "");
  return fromProcess && (node.specifiers as Node[]).some(({ imported }) => isName(imported, "env"));
}

/** Matches `object.property` and `object["property"]`, also on `globalThis`. */
function isMember(node: Node, object: string, property: string): boolean {
  if (node.type !== "MemberExpression") {
    return false;
  }
  const owner = node.object as Node;
  const ofObject = isName(owner, object) || isMember(owner, "globalThis", object);
  return ofObject && (isName(node.property, property) || literal(node.property) === property);
}

function isName(value: unknown, name: string): boolean {
  const node = value as Node | undefined;
  return node?.type === "Identifier" && node.name === name;
}

function literal(value: unknown): string | undefined {
  const node = value as Node | undefined;
  return node?.type === "Literal" && typeof node.value === "string" ? node.value : undefined;
}
