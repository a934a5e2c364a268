import { demandScope } from "../question.ts";

/**
 * The requirements of a tool. `scope` is the permission. The other members name arguments: the service
 * compares the constraints of certificates with their values. `{ open: true }` lets everybody call the tool.
 */
export type ToolRule =
  | {
      readonly scope: string;
      readonly amount?: string;
      readonly currency?: string;
      readonly resource?: string;
      readonly path?: string;
    }
  | { readonly open: true };

/** The rules of a server, by the name of the tool. A tool without a rule is refused. */
export type ToolRules = Readonly<Record<string, ToolRule>>;

/** The values of a call that constraints count. */
export type CallFacts = {
  amount?: number;
  currency?: string;
  resource?: string;
  path?: string;
};

/** Why a rule refuses a call before anybody asks the service. */
export type RuleFault = "argument_required" | "argument_invalid";

/** A checked rule with a scope. `factsOf` reads the values of a call's arguments. */
export type ScopeRule = {
  scope: string;
  factsOf(given: Readonly<Record<string, unknown>>): CallFacts | RuleFault;
};

type Fact = keyof CallFacts;

const FACTS: readonly Fact[] = ["amount", "currency", "resource", "path"];

/** A value has the type that the agent signed: a rule never turns text into a number. */
const IS_VALID: Readonly<Record<Fact, (value: unknown) => boolean>> = {
  amount: (value) => typeof value === "number" && value >= 0 && value < Infinity,
  currency: isText,
  resource: isText,
  // The service ignores the query of a path, but a tool can read it as part of a name.
  path: (value) => isText(value) && !value.includes("?"),
};

/**
 * Checks and copies rules. Throws TypeError for a rule with an unknown member, without a scope, or with a
 * scope that no certificate can grant.
 */
export function readRules(rules: ToolRules): ReadonlyMap<string, ScopeRule | "open"> {
  demand(isPlain(rules), "rules: must be an object of rules by tool");
  return new Map(Object.entries(rules).map(([tool, rule]) => [tool, readRule(tool, rule)]));
}

function readRule(tool: string, rule: unknown): ScopeRule | "open" {
  const where = `rules: ${JSON.stringify(tool)}`;
  demand(isPlain(rule), `${where} must be an object`);
  if (Object.hasOwn(rule, "open")) {
    demand(Object.keys(rule).length === 1 && rule.open === true, `${where} must be only { open: true }`);
    return "open";
  }
  const { scope, ...names } = rule;
  demand(typeof scope === "string", `${where} needs a scope, or { open: true }`);
  demandScope(scope, `${where} scope`);
  const unknown = Object.keys(names).filter((name) => !(FACTS as readonly string[]).includes(name));
  demand(unknown.length === 0, `${where} has an unknown member: ${unknown.join(", ")}`);
  const named = FACTS.filter((fact) => names[fact] !== undefined).map((fact): [Fact, string] => {
    const name = names[fact];
    demand(isText(name), `${where}: ${fact} must be the name of an argument`);
    return [fact, name];
  });
  return { scope, factsOf: (given) => factsOf(named, given) };
}

/** A schema could fill an absent argument after the check, so every argument of the rule must be present. */
function factsOf(
  named: readonly [Fact, string][],
  given: Readonly<Record<string, unknown>>,
): CallFacts | RuleFault {
  const facts: Partial<Record<Fact, unknown>> = {};
  for (const [fact, name] of named) {
    if (!Object.hasOwn(given, name) || given[name] === undefined) return "argument_required";
    if (!IS_VALID[fact](given[name])) return "argument_invalid";
    facts[fact] = given[name];
  }
  return facts as CallFacts;
}

/** Returns whether a value is an object that is no array. */
export function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function demand(holds: boolean, message: string): asserts holds {
  if (!holds) throw new TypeError(message);
}
