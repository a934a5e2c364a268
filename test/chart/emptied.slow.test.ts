import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { HELMS, helm } from "../support/helm.ts";
import { CHART, objectsOf, type Rendered, template } from "./render.ts";
import { mergeValues, VALUES, type Values } from "./values.ts";

const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
for (const { missing } of programs) if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** Values that use every part of the chart which a trial does not replace. */
const FULL = [
  "kafka",
  "ingress",
  "gateway",
  "other clusters",
  "a pooler in front of the database",
  "everything",
]
  .map((name) => VALUES[name] ?? {})
  .reduce(mergeValues, { monitoring: { enabled: true } });

/** Returns the paths of all maps and lists below a value. */
function pathsIn(value: unknown, above: string[] = []): { path: string[]; isList: boolean }[] {
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return [{ path: above, isList: true }];
  const own = above.length === 0 ? [] : [{ path: above, isList: false }];
  return [...own, ...Object.entries(value).flatMap(([name, inner]) => pathsIn(inner, [...above, name]))];
}

const DEFAULTS = parse(await readFile(join(CHART, "values.yaml"), "utf8")) as Values;
const PATHS = pathsIn(DEFAULTS);

const withValue = (path: string[], value: unknown): Values =>
  mergeValues(FULL, path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Values);

const check = new Ajv({ strict: false }).compile(
  JSON.parse(await readFile(join(CHART, "values.schema.json"), "utf8")),
);

/** Returns whether the schema accepts all values but this one, which null removes. */
function mayBeRemoved(path: string[]): boolean {
  const values = structuredClone(mergeValues(DEFAULTS, FULL));
  const holder = path.slice(0, -1).reduce((map, name) => map[name] as Values, values);
  delete holder[path.at(-1) ?? ""];
  return check(values);
}

/** Returns rules of NetworkPolicies that allow every peer or every port. */
function openRules(objects: readonly Rendered[]): unknown[] {
  const rules = objects
    .filter(({ kind }) => kind === "NetworkPolicy")
    .flatMap(({ spec }) => [...(spec.ingress ?? []), ...(spec.egress ?? [])]);
  return rules.filter(({ from, to, ports }) => !(from ?? to)?.length || !ports?.length);
}

/** Expects an error of one sentence, or objects whose policies name each peer and port. */
async function expectClosed(path: string, values: Values): Promise<void> {
  const { isGood, out, err } = await template(path, values);
  if (isGood) {
    const objects = objectsOf(out);
    expect(objects.length).toBeGreaterThan(10);
    expect(openRules(objects)).toEqual([]);
    return;
  }
  const said = err.replace(/^(level=|I\d{4} ).*$/gm, "").trim();
  expect(said).toMatch(
    /^Error: (values don't meet the specifications of the schema\(s\) in the following chart\(s\):\ndeputize:\n- at '[^\n]*|execution error at \(deputize\/templates\/\S+\): [A-Za-z][^\n]+\.)(\n\nUse --debug flag[^\n]*)?$/,
  );
}

const REMOVABLE = PATHS.map(({ path }) => path).filter(mayBeRemoved);

test("the chart's schema requires all maps and lists, except the parts of resources", () => {
  expect(check(mergeValues(DEFAULTS, FULL)), JSON.stringify(check.errors)).toBe(true);
  expect(PATHS.length).toBeGreaterThan(150);
  expect(REMOVABLE.length).toBeGreaterThan(10);
  expect(REMOVABLE.filter((path) => path.at(-2) !== "resources")).toEqual([]);
});

describe.concurrent.each(programs)("the chart with helm $version", ({ path: helmPath = "", missing }) => {
  test.skipIf(missing !== undefined)("renders the values that the table starts from", async () => {
    expect(await template(helmPath, FULL)).toMatchObject({ isGood: true, err: "" });
  });

  const removed = [
    ...REMOVABLE,
    ["network"],
    ["network", "peers", "callbacks", "ports"],
    ["global", "labels"],
  ];
  test.skipIf(missing !== undefined).each(named(removed))("fails closed without %s", (_, path) =>
    expectClosed(helmPath, withValue(path, null)),
  );

  const lists = PATHS.filter(({ isList }) => isList).map(({ path }) => path);
  test.skipIf(missing !== undefined).each(named(lists))("fails closed with an empty %s", (_, path) =>
    expectClosed(helmPath, withValue(path, [])),
  );
});

function named(paths: string[][]): [string, string[]][] {
  return paths.map((path) => [path.join("."), path]);
}
