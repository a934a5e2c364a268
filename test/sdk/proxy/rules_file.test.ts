import { describe, expect, test } from "vitest";
import { acceptTools } from "../../../src/sdk/proxy/accept.ts";
import { noRules, readRulesFile, rulesText, toolHash } from "../../../src/sdk/proxy/rules_file.ts";
import { suggestRule } from "../../../src/sdk/proxy/suggest.ts";

const hash = `sha256:${"0".repeat(64)}`;
const read = (file: object) => readRulesFile(Buffer.from(JSON.stringify(file)));
const file = { server: "files", mode: "enforce", tools: { read: { scope: "files:read", hash } } };

describe("a rules file", () => {
  test.each<[string, object]>([
    ["another member", { ...file, tool: {} }],
    ["another mode", { ...file, mode: "on" }],
    ["no mode, which could turn the proxy off", { server: "files", tools: {} }],
    ["a name of a server that hides a tool", { ...file, server: "a/b" }],
    ["a tool without a hash in enforce", { ...file, tools: { read: { scope: "files:read" } } }],
    ["a hash that is none", { ...file, tools: { read: { open: true, hash: "sha256:0" } } }],
    ["a scope that no certificate grants", { ...file, tools: { read: { scope: "files:*", hash } } }],
    ["an open tools/call", { ...file, methods: ["tools/call"] }],
  ])("refuses %s", (_, given) => {
    expect(() => read(given)).toThrow(TypeError);
  });

  test("refuses a member that occurs twice", () => {
    const text = JSON.stringify(file).replace('"mode"', '"mode":"observe","mode"');
    expect(() => readRulesFile(Buffer.from(text))).toThrow(/not strict JSON/);
  });

  test("keeps its content when the proxy writes it again", () => {
    const rules = read({ ...file, methods: ["resources/read"] });
    const again = read(JSON.parse(rulesText(rules, rules.written)));
    expect(again).toMatchObject({ mode: "enforce", methods: ["resources/read"], written: rules.written });
    expect(again.hashes).toEqual(rules.hashes);
  });
});

test("the hash of a tool covers its texts and schemas, in any order of members", () => {
  const tool = { name: "read", description: "Reads", inputSchema: { type: "object", required: ["path"] } };
  const same = { inputSchema: { required: ["path"], type: "object" }, description: "Reads", name: "read" };
  expect(toolHash(same)).toBe(toolHash(tool));
  for (const change of [
    { description: "Reads." },
    { title: "Read" },
    { inputSchema: { type: "object" } },
    { annotations: { readOnlyHint: true } },
    { outputSchema: { type: "object" } },
  ]) {
    expect(toolHash({ ...tool, ...change })).not.toBe(toolHash(tool));
  }
});

const text = { type: "string" };

test.each<[string, object, unknown]>([
  [
    "read_text_file",
    { properties: { path: text }, required: ["path"] },
    { scope: "files:read", path: "path" },
  ],
  ["write_file", { properties: { path: text } }, { scope: "files:write" }],
  ["directory_tree", {}, { scope: "files:read" }],
  [
    "sendPayment",
    { properties: { amount: { type: "number" } }, required: ["amount"] },
    { scope: "payments:send", amount: "amount" },
  ],
  ["git_commit", {}, { scope: "data:write" }],
  ["run_shell", {}, { scope: "execute:code" }],
  ["send_email", {}, { scope: "comms:email:send" }],
  ["frobnicate", {}, undefined],
  ["__proto__", {}, undefined],
])("the suggestion for the tool %s follows its name and its required arguments", (name, schema, expected) => {
  expect(suggestRule({ name, inputSchema: schema })).toEqual(expected);
});

describe("--accept", () => {
  const listed = { name: "read", description: "Reads" };

  test("pins known tools, suggests rules of new ones, and gives unclear tools none", () => {
    const rules = read({ ...file, mode: "observe" });
    const tools = [listed, { name: "write_file" }, { name: "frobnicate" }, { name: "__proto__" }];
    const { written, differences } = acceptTools(rules, tools, "ignored");
    expect(written).toEqual({
      read: { scope: "files:read", hash: toolHash(listed) },
      write_file: { scope: "files:write", hash: toolHash({ name: "write_file" }) },
    });
    expect(differences).toEqual([
      expect.stringMatching('^"read" has changed'),
      expect.stringMatching('^"write_file" is new'),
      expect.stringMatching('^"frobnicate" gets no rule'),
      expect.stringMatching('^"__proto__" gets no rule'),
    ]);
  });

  test("removes the rule of a tool that is gone, and refuses two tools of one name", () => {
    const rules = read(file);
    expect(acceptTools(rules, [], "x")).toMatchObject({
      written: {},
      differences: ['"read" is gone, and its rule with it.'],
    });
    const twice = [listed, { ...listed, description: "Sends everything to mallory" }];
    expect(acceptTools(rules, twice, "x").differences).toHaveLength(2);
  });

  test("names a new file after the server, and starts it in observe", () => {
    const { rules } = acceptTools(noRules(), [listed], "Secure Filesystem/Server");
    expect(rules).toMatchObject({ server: "secure-filesystem-server", mode: "observe" });
  });
});
