import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer as McpServer2, Server as Server2 } from "@modelcontextprotocol/server";
import { describe, expect, test } from "vitest";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { createGuard } from "../../../src/sdk/guard.ts";
import { guardTools, type ToolRules, withAuthority } from "../../../src/sdk/mcp/mcp.ts";
import { readRules } from "../../../src/sdk/mcp/rules.ts";

const guard = createGuard({ baseUrl: "http://127.0.0.1:1", apiKey: "dpzv_key" });
const info = { name: "bank", version: "1" };
const bank = { server: "bank" };
const scope = "payments:send";

describe("the rules of tools", () => {
  test.each<[string, unknown]>([
    ["a rule that is no object", { pay: "payments:send" }],
    ["a rule without a scope", { pay: { amount: "amount" } }],
    ["a scope that no certificate grants", { pay: { scope: "payments:*" } }],
    ["an unknown member", { pay: { scope, amuont: "amount" } }],
    ["open together with a scope", { pay: { open: true, scope } }],
    ["open that is not true", { pay: { open: false } }],
    ["a value instead of an argument's name", { pay: { scope, amount: 5 } }],
    ["an empty name of an argument", { pay: { scope, resource: "" } }],
    ["a list", []],
  ])("refuse %s when they are read", (_, rules) => {
    expect(() => readRules(rules as ToolRules)).toThrow(TypeError);
  });

  const all = { scope, amount: "amount", currency: "currency", resource: "to", path: "file" };
  const given = { amount: 5, currency: "EUR", to: "bob", file: "/a/b" };
  const read = (values: object) => {
    const rule = readRules({ pay: all }).get("pay");
    return rule === "open" ? undefined : rule?.factsOf({ ...given, ...values });
  };

  test.each<[string, object, unknown]>([
    ["reads all values", {}, { amount: 5, currency: "EUR", resource: "bob", path: "/a/b" }],
    ["refuses an absent amount", { amount: undefined }, "argument_required"],
    ["refuses an amount in text", { amount: "5" }, "argument_invalid"],
    ["refuses a negative amount", { amount: -1 }, "argument_invalid"],
    ["refuses an amount that is not finite", { amount: Number.NaN }, "argument_invalid"],
    ["refuses a list of currencies", { currency: ["EUR"] }, "argument_invalid"],
    ["refuses an empty resource", { to: "" }, "argument_invalid"],
    ["refuses a path with a query, which the service would ignore", { file: "/a?/../b" }, "argument_invalid"],
  ])("a rule %s", (_, values, expected) => {
    expect(read(values)).toEqual(expected);
  });

  test("never take a value from the prototype of the arguments", () => {
    const rule = readRules({
      pay: { scope, amount: "constructor" },
      ...{ toString: { open: true as const } },
    });
    expect(rule.get("pay")).toMatchObject({ scope });
    expect(rule.get("valueOf")).toBeUndefined();
    const pay = rule.get("pay");
    expect(pay === "open" ? undefined : pay?.factsOf({})).toBe("argument_required");
  });
});

describe("guardTools", () => {
  test("refuses a server that already has tools, resources, a task store or other methods: attack 2", () => {
    const early1 = new McpServer1(info);
    early1.registerTool("pay", {}, () => ({ content: [] }));
    const early2 = new McpServer2(info);
    early2.registerTool("pay", {}, () => ({ content: [] }));
    const resources = new McpServer2(info);
    resources.registerResource("notes", "bank://notes", {}, () => ({ contents: [] }));
    const custom = new Server2(info);
    custom.setRequestHandler("bank/pay", { params: { "~standard": standard } }, () => ({}));
    const declared = new McpServer1(info, { capabilities: { tools: {} } });
    for (const server of [early1, early2, resources, custom, declared]) {
      expect(() => guardTools(server, guard, {}, bank)).toThrow(/already handles/);
    }
  });

  test.each<[string, object]>([
    ["no name", {}],
    ["a name with a slash, which could hide a tool's name", { server: "bank/pay" }],
    ["an unknown option", { server: "bank", open: ["tools/call"] }],
    ["an open tools/call", { server: "bank", openMethods: ["tools/call"] }],
  ])("refuses options with %s", (_, options) => {
    expect(() => guardTools(new McpServer2(info), guard, {}, options as typeof bank)).toThrow(TypeError);
  });
});

describe("withAuthority", () => {
  const agent = createAgent({ baseUrl: "http://127.0.0.1:1", apiKey: "dpza_key", verifiers: {} });
  const transport = { send: async () => undefined };

  test.each<[string, object]>([
    ["without scopes", { server: "bank" }],
    ["with an unknown option", { server: "bank", scopes: {}, verifiers: "own" }],
    ["with a scope that no certificate grants", { server: "bank", scopes: { pay: "all" } }],
    ["with an unknown member of a scope", { server: "bank", scopes: { pay: { scope, amount: "a" } } }],
    ["with a name that hides a tool's name", { server: "bank/pay", scopes: {} }],
  ])("refuses settings %s", (_, options) => {
    expect(() => withAuthority(transport, agent, options as never)).toThrow(TypeError);
  });
});

const standard = {
  version: 1 as const,
  vendor: "test",
  validate: (value: unknown) => ({ value: value as object }),
};
