import { isPlain, type ToolRule } from "../mcp/rules.ts";
import type { ListedTool } from "./rules_file.ts";

/** The first row with a word of the tool's name decides. */
const VERBS: readonly (readonly [string, RegExp])[] = [
  ["execute", /^(execute|exec|run|eval|shell|script|command)$/],
  ["delete", /^(delete|remove|drop|destroy|purge|reset|kill)$/],
  ["send", /^(send|pay|transfer|reply|forward)$/],
  [
    "write",
    /^(write|create|edit|update|move|rename|put|set|add|append|insert|commit|checkout|init|upload|toggle)$/,
  ],
  ["read", /^(read|get|list|search|find|fetch|show|view|query|describe|status|diff|log|convert|echo|tree)$/],
];
/** The first row with a word of the tool's name decides. `data` has a scope for every verb except `send`. */
const GROUPS: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
  [/^(payments?|pay|transfer|invoices?)$/, { send: "payments:send", write: "payments:send" }],
  [/^e?mails?$/, send("comms:email")],
  [/^(messages?|chat|slack)$/, send("comms:message")],
  [/^(calendars?|events?)$/, { read: "comms:calendar:read", write: "comms:calendar:write" }],
  [
    /^(files?|director(y|ies)|folders?|paths?)$/,
    { read: "files:read", write: "files:write", delete: "files:write" },
  ],
  [/./, { read: "data:read", write: "data:write", delete: "data:delete", execute: "execute:code" }],
];

/**
 * Suggests the rule of a tool from its name, and names its required arguments that certificates can limit.
 * Returns `undefined` for a tool that is better refused until a person has chosen a rule. A suggestion never
 * makes a tool open, because the server's own words decide nothing.
 */
export function suggestRule(tool: ListedTool): ToolRule | undefined {
  const words = tool.name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/);
  const [verb] = VERBS.find(([, pattern]) => words.some((word) => pattern.test(word))) ?? [];
  if (verb === undefined) return undefined;
  const scope = GROUPS.filter(([pattern]) => words.some((word) => pattern.test(word)))
    .map(([, scopes]) => scopes[verb])
    .find((found) => found !== undefined);
  return scope === undefined ? undefined : { scope, ...namedArguments(tool) };
}

function namedArguments({
  inputSchema,
}: ListedTool): Partial<Record<"amount" | "currency" | "path", string>> {
  const { properties, required } = isPlain(inputSchema) ? inputSchema : {};
  const named = (
    [
      ["amount", ["number", "integer"]],
      ["currency", ["string"]],
      ["path", ["string"]],
    ] as const
  )
    .filter(([name, types]) => {
      const property = isPlain(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
      const isRequired = Array.isArray(required) && required.includes(name);
      return isRequired && isPlain(property) && (types as readonly unknown[]).includes(property.type);
    })
    .map(([name]) => [name, name]);
  return Object.fromEntries(named);
}

function send(group: string): Readonly<Record<string, string>> {
  return { send: `${group}:send`, write: `${group}:send`, read: `${group}:read`, delete: `${group}:delete` };
}
