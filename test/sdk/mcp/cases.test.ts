import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGuard, type Guard } from "../../../src/sdk/create_guard.ts";
import { guardTools, type ToolRules } from "../../../src/sdk/mcp/mcp.ts";
import { readRules } from "../../../src/sdk/mcp/rules.ts";
import { actionsOf, nameIn } from "../../../src/sdk/mcp/wire.ts";
import { type AuthorizeCall, questionOf, readCall } from "../../../src/sdk/question.ts";
import { answering, type StubService, startStub } from "../stub_service.ts";
import type shared from "./cases.json";

/** Vite's own parser of JSON refuses the lone surrogates that some cases contain. */
const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8")) as typeof shared;
const verifier = { verifierId: "v-1", workspaceId: "w-1" };
const ENTRY = { proof_ref: "AQ", agent_id: "aa", invocation_id: "i-1" };

type Params = Record<string, unknown>;
type Handler = (request: object, context: object) => Promise<unknown>;

/** Calls the tool `pay` of a server that has only the parts of the SDK that the guard needs. */
async function call(guard: Guard, rule: unknown, params: Params): Promise<unknown> {
  let handler: Handler | undefined;
  const server = {
    setRequestHandler(_: string, wrapped: Handler) {
      handler = wrapped;
    },
    assertCanSetRequestHandler: () => undefined,
    registerCapabilities: () => undefined,
  };
  guardTools(server as never, guard, { pay: rule } as ToolRules, { server: "bank" });
  server.setRequestHandler("tools/call", () => Promise.reject(new Error("the tool ran")));
  return handler?.({ method: "tools/call", params }, { _meta: params._meta });
}

/** Returns the refusal of a call, or what its proof must be bound to. */
async function outcomeOf(rule: unknown, params: Params): Promise<unknown> {
  let asked: AuthorizeCall | undefined;
  const authorize = (given: AuthorizeCall) => {
    asked = given;
    return Promise.reject(new Error("asked"));
  };
  const refused = await call({ authorize } as unknown as Guard, rule, params).catch(() => undefined);
  if (asked === undefined) return { refusal: readRefusal(refused) };
  const read = readCall(asked);
  const question = "cause" in read ? read : questionOf(read, verifier);
  if ("cause" in read || "cause" in question) return { unproven: true };
  return { operation: question.operation, context: read.context ?? {} };
}

function readRefusal(result: unknown) {
  const { content, isError, _meta } = result as {
    content: { text: string }[];
    isError: boolean;
    _meta: object;
  };
  expect([content, isError]).toEqual([[{ type: "text", text: expect.any(String) }], true]);
  return { text: content[0]?.text, _meta };
}

/** `test_mcp_cases.py` runs the same cases with the Python package. */
describe("the MCP cases that both languages share:", () => {
  let stub: StubService;
  beforeAll(async () => {
    stub = await startStub(answering(200, {}));
  });
  afterAll(() => stub.stop());

  test.each(cases.rules)("rules with $name", ({ rules, valid }) => {
    const read = () => [...readRules(rules as unknown as ToolRules).keys()];
    if (valid) expect(read()).toEqual(Object.keys(rules));
    else expect(read).toThrow(TypeError);
  });

  test.each(cases.servers)("a server with the name $name", ({ name, valid }) => {
    if (valid) expect(actionsOf(name)("pay")).toBe(`${name}/pay`);
    else expect(() => actionsOf(name)).toThrow("server");
  });

  test.each(cases.calls)("a call with $name", async ({ rule, params, outcome }) => {
    expect(await outcomeOf(rule, JSON.parse(params) as Params)).toEqual(outcome);
  });

  test.each(cases.refusals)("a refusal after $name", async ({ status, answer, refusal }) => {
    stub.respond(answering(status, answer));
    const guard = createGuard({ baseUrl: stub.url, apiKey: "dpzv_key", verifier, onFault: () => undefined });
    const params = { name: "pay", _meta: { "io.deputize/authority": ENTRY } };
    expect(readRefusal(await call(guard, { scope: "payments:send" }, params))).toEqual(refusal);
  });

  test.each(cases.names)("the name of a call in _meta with $name", ({ meta, found }) => {
    expect(nameIn(meta) ?? null).toBe(found);
  });
});
