import { Environment } from "@marcbachmann/cel-js";
import type { CelRule, StructuralSchema } from "./read_crds.ts";
import type { SchemaViolation } from "./structure.ts";

type CompiledRule = {
  message: string;
  fieldPath: string;
  isTransition: boolean;
  holds(self: unknown, oldSelf: unknown): boolean;
};
type CompiledNode = {
  schema: StructuralSchema;
  rules: CompiledRule[];
  properties: Map<string, CompiledNode>;
  items?: CompiledNode;
};

/**
 * Checks a structurally valid object against the CEL rules of its schema, as the API server does. Rules with
 * `oldSelf` apply only to values that had a previous value. Members of lists never have one.
 */
export type RulesCheck = (object: unknown, previous: unknown) => SchemaViolation[];

/** Compiles the CEL rules of a schema. Throws `Error` if a rule is not valid CEL. */
export function rulesCheck(schema: StructuralSchema): RulesCheck {
  const environment = new Environment().registerVariable("self", "dyn").registerVariable("oldSelf", "dyn");
  environment.registerFunction(`string.${MATCHES}(string): bool`, matches);
  environment.registerFunction("list.sum(): int", (counts: bigint[]) =>
    counts.reduce((sum, n) => sum + n, 0n),
  );
  const root = compile(environment, schema);
  return (object, previous) => [...violations(root, object, previous, "")];
}

function compile(environment: Environment, schema: StructuralSchema): CompiledNode {
  const children = Object.entries(schema.properties ?? {});
  return {
    schema,
    rules: (schema["x-kubernetes-validations"] ?? []).map((rule) => compileRule(environment, rule)),
    properties: new Map(children.map(([name, child]) => [name, compile(environment, child)])),
    ...(schema.items === undefined ? {} : { items: compile(environment, schema.items) }),
  };
}

/** Replaces the library's `matches`, which lacks RE2's `\p{…}` and characters beyond U+FFFF. */
const MATCHES = "matchesUnicode";
const patterns = new Map<string, RegExp>();

function matches(text: string, pattern: string): boolean {
  const compiled = patterns.get(pattern) ?? new RegExp(pattern, "u");
  patterns.set(pattern, compiled);
  return compiled.test(text);
}

function compileRule(environment: Environment, { rule, message, fieldPath = "" }: CelRule): CompiledRule {
  const program = environment.parse(rule.replaceAll(".matches(", `.${MATCHES}(`));
  const checked = program.check();
  if (!checked.valid) {
    throw new Error(`The rule ${JSON.stringify(rule)} is not valid`, { cause: checked.error });
  }
  return {
    message: message ?? `failed rule: ${rule}`,
    fieldPath,
    isTransition: /\boldSelf\b/.test(rule),
    holds: (self, oldSelf) => evaluates(() => program({ self, oldSelf })),
  };
}

/** Returns whether a rule holds. A rule whose evaluation fails counts as violated, as on the API server. */
function evaluates(program: () => unknown): boolean {
  try {
    return program() === true;
  } catch {
    return false;
  }
}

function* violations(
  node: CompiledNode,
  value: unknown,
  previous: unknown,
  path: string,
): Generator<SchemaViolation> {
  if (value === undefined || value === null) return;
  yield* brokenRules(node, value, previous, path);
  if (Array.isArray(value)) {
    const { items } = node;
    if (items === undefined) return;
    for (const [index, item] of value.entries()) {
      yield* violations(items, item, undefined, `${path}[${index}]`);
    }
    return;
  }
  for (const [name, child] of node.properties) {
    yield* violations(
      child,
      member(value, name),
      member(previous, name),
      path === "" ? name : `${path}.${name}`,
    );
  }
}

function* brokenRules(
  { rules, schema }: CompiledNode,
  value: unknown,
  previous: unknown,
  path: string,
): Generator<SchemaViolation> {
  const applicable = rules.filter((rule) => !rule.isTransition || previous !== undefined);
  if (applicable.length === 0) return;
  const self = toCel(schema, value);
  const oldSelf = previous === undefined ? undefined : toCel(schema, previous);
  for (const { holds, fieldPath, message } of applicable) {
    if (!holds(self, oldSelf)) yield { path: `${path}${fieldPath}`.replace(/^\./, ""), message };
  }
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** Times become dates. Sets are sorted, because their order is irrelevant. */
function toCel(schema: StructuralSchema, value: unknown): unknown {
  if (schema.format === "date-time" && typeof value === "string") return new Date(value);
  if (Array.isArray(value)) {
    const { items } = schema;
    const members: unknown[] = items === undefined ? value : value.map((item) => toCel(items, item));
    return schema["x-kubernetes-list-type"] === "set" ? members.toSorted() : members;
  }
  if (typeof value !== "object" || value === null || schema.properties === undefined) return value;
  const entries = Object.entries(value).map(([name, item]) => {
    const child = schema.properties?.[name];
    return [name, child === undefined ? item : toCel(child, item)];
  });
  return Object.fromEntries(entries);
}
