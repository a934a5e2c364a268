import { createHash } from "node:crypto";
import { canonicalBytes } from "../../protocol/encoding/canonical.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import { type Ask, readAsk } from "../agent/asking.ts";
import { isPlain, readRules, type ScopeRule, type ToolRule } from "../mcp/rules.ts";
import { actionsOf } from "../mcp/wire.ts";

/** `observe` passes every call on, and only records what `enforce` would have done. */
export type Mode = "observe" | "enforce";

/** A tool as a server lists it. */
export type ListedTool = Readonly<Record<string, unknown>> & { readonly name: string };

/** The checked content of a rules file. */
export type ProxyRules = {
  server: string;
  mode: Mode;
  /** More methods and notifications that pass in `enforce` without a proof. */
  methods: readonly string[];
  tools: ReadonlyMap<string, ScopeRule | "open">;
  /** The hash of each accepted tool. */
  hashes: ReadonlyMap<string, string>;
  /** How the agents ask a person whose approval a call needs. Without it, they ask nobody. */
  ask: Ask | undefined;
  /** The rules as the file has them, to write them again. */
  written: Readonly<Record<string, ToolRule & { hash?: string }>>;
};

const MEMBERS = ["server", "mode", "methods", "ask", "tools"];
const HASH = /^sha256:[0-9a-f]{64}$/;
const LIMITS = { bytes: 1_048_576, depth: 16 };
/** The members that a person accepts: everything that a model reads about a tool, and that shapes a call. */
const HASHED = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/** The rules before anybody has written some: nothing is enforced. */
export function noRules(server = "server"): ProxyRules {
  const none = { methods: [], tools: new Map(), hashes: new Map(), ask: undefined, written: {} };
  return { server, mode: "observe", ...none };
}

/** Reads a rules file. Throws TypeError with a message that says what to correct. */
export function readRulesFile(bytes: Uint8Array): ProxyRules {
  const { server, mode, methods = [], ask: given, tools, ...others } = objectIn(bytes);
  demand(Object.keys(others).length === 0, `only ${MEMBERS.join(", ")} are members of the file`);
  actionsOf(server as string);
  demand(mode === "observe" || mode === "enforce", 'mode: must be "observe" or "enforce"');
  demand(Array.isArray(methods) && methods.every(isText), "methods: must be a list of methods");
  demand(!methods.includes("tools/call"), "methods: tools/call has rules instead");
  const ask = readAsk(given as Ask | undefined);
  demand(isPlain(tools), "tools: must be an object of rules by tool");
  const hashes = new Map<string, string>();
  const rules = Object.entries(tools).map(([name, given]) => {
    if (!isPlain(given) || given.hash === undefined) return [name, given] as const;
    const { hash, ...rule } = given;
    demand(typeof hash === "string" && HASH.test(hash), `tools: ${JSON.stringify(name)} has no valid hash`);
    hashes.set(name, hash);
    return [name, rule] as const;
  });
  const checked = readRules(Object.fromEntries(rules) as Record<string, ToolRule>);
  const bare = [...checked.keys()].find((name) => !hashes.has(name));
  demand(
    mode === "observe" || bare === undefined,
    `tools: ${JSON.stringify(bare)} needs a hash: use --accept`,
  );
  return { server: String(server), mode, methods, ask, tools: checked, hashes, written: tools as never };
}

/** Returns the text of a rules file. */
export function rulesText(
  { server, mode, methods, ask }: ProxyRules,
  written: ProxyRules["written"],
): string {
  const content = { server, mode, ...(methods.length > 0 && { methods }), ask, tools: written };
  return `${JSON.stringify(content, undefined, 2)}\n`;
}

/** Returns the members of a tool that its hash covers. */
export function acceptedPart(tool: ListedTool): ListedTool {
  const covered = HASHED.filter((member) => tool[member] !== undefined).map((member) => [
    member,
    tool[member],
  ]);
  return Object.fromEntries(covered);
}

/** Returns the hash of a tool's name, texts and schemas, or `undefined` if it has no canonical JSON. */
export function toolHash(tool: ListedTool): string | undefined {
  try {
    return `sha256:${createHash("sha256")
      .update(canonicalBytes(acceptedPart(tool)))
      .digest("hex")}`;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

function objectIn(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = plainJson(parseJson(bytes, LIMITS));
  } catch (error) {
    throw new TypeError(`not strict JSON: ${error instanceof Error ? error.message : ""}`);
  }
  demand(isPlain(value), "must be a JSON object");
  return value;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function demand(holds: boolean, message: string): asserts holds {
  if (!holds) throw new TypeError(message);
}
