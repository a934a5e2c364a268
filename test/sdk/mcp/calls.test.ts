import { InMemoryTransport, inputRequired } from "@modelcontextprotocol/server";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type AgentSettings,
  createAgent,
  NotDelegated,
  WrongVerifier,
} from "../../../src/sdk/agent/agent.ts";
import { createGuard, type Guard } from "../../../src/sdk/guard.ts";
import { AUTHORITY, authorityOf, withAuthority } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { approve } from "../../support/platform_world.ts";
import { type BankClient, CLIENTS, PAYMENT, type Paid, SCOPE, SERVERS, type Served } from "./bank.ts";

const world = proofApi();
const tools: { paid: Paid[]; pay?: ((paid: Paid) => unknown) | undefined } = { paid: [] };
let app: Application;
let guard: Guard;

const verifierOf = ({ platform, person }: Application) => ({
  verifierId: platform.connectionId,
  workspaceId: person.accountId,
});
const agentOf = ({ platform, agentId }: Application, settings: Partial<AgentSettings> = {}) =>
  createAgent({
    ...settings,
    baseUrl: world.api.url,
    apiKey: platform.apiKey,
    agentId,
    verifiers: { "mcp:bank": verifierOf(app) },
    pausesMs: [],
  });

beforeAll(async () => {
  app = await world.application();
  guard = createGuard({ baseUrl: world.api.url, apiKey: app.platform.apiKey, verifier: verifierOf(app) });
});
beforeEach(() => {
  tools.paid = [];
  tools.pay = undefined;
});

const outcomeOf = async (receiptId = "") => {
  await guard.flush();
  const row = await world.api.db("outcomes").where({ event_id: receiptId }).first();
  return row?.outcome;
};

const PAIRS = (Object.keys(SERVERS) as (keyof typeof SERVERS)[]).flatMap((server) =>
  (Object.keys(CLIENTS) as (keyof typeof CLIENTS)[]).map((client) => [server, client] as const),
);

describe.each(PAIRS)("%s and %s", (server, client) => {
  let served: Served;
  let bank: BankClient;

  beforeAll(async () => {
    served = await SERVERS[server]({ guard, tools });
    const scopes = { send_payment: { scope: SCOPE, resource: "to" }, hidden: SCOPE };
    bank = await CLIENTS[client](served, (transport) =>
      withAuthority(transport, agentOf(app), { server: "bank", scopes }),
    );
  });
  afterAll(async () => {
    await bank?.close();
    await served?.stop();
  });

  test("run an allowed call with its authority, and refuse calls without a rule", async () => {
    const { length } = await world.api.db("audit_events").whereNotNull("decision");
    expect(await bank.callTool({ name: "send_payment", arguments: PAYMENT })).toMatchObject({
      content: [{ text: `paid for ${app.person.humanId}` }],
    });
    expect(tools.paid.map(({ arguments: given }) => given)).toEqual([PAYMENT]);
    const { operation, agentId, receiptId } = authorityOf(tools.paid[0]?.context ?? {});
    expect(agentId).toBe(app.agentId);
    expect(operation).toMatchObject({ action: "bank/send_payment", resource_id: "bob" });
    expect(await outcomeOf(receiptId)).toBe("executed");
    expect(await world.api.db("audit_events").whereNotNull("decision")).toHaveLength(length + 1);

    expect(await bank.callTool({ name: "health" })).toMatchObject({ content: [{ text: "healthy" }] });
    expect(await bank.callTool({ name: "hidden", arguments: PAYMENT })).toMatchObject({
      isError: true,
      _meta: { [AUTHORITY]: { code: "tool_without_rule" } },
    });
    await expect(bank.readResource({ uri: "bank://notes" })).rejects.toMatchObject({ code: -32602 });
    expect(bank.getServerCapabilities()).toMatchObject({ extensions: { [AUTHORITY]: {} } });
    expect(tools.paid).toHaveLength(1);
  });
});

/** A tool of SDK 2.x that asks for confirmation before it pays. */
function payAfterConfirmation({ arguments: given, context }: Paid): unknown {
  const { inputResponses } = Reflect.get(context, "mcpReq") as { inputResponses?: object };
  if (inputResponses !== undefined) return undefined;
  const requestedSchema = { type: "object" as const, properties: { amount: { type: "number" as const } } };
  const confirm = inputRequired.elicit({ message: `Pay ${String(given.to)}?`, requestedSchema });
  return inputRequired({ inputRequests: { confirm } });
}

describe("a call in several rounds", () => {
  const scopes = { send_payment: SCOPE };
  const server = "SDK 2.x in memory" as const;
  const client = "client 2.x that negotiates" as const;

  test("needs a proof for each round, of all input of the round: attack 1", async () => {
    tools.pay = payAfterConfirmation;
    const served = await SERVERS[server]({ guard, tools });
    const bank = await CLIENTS[client](served, (transport) =>
      withAuthority(transport, agentOf(app), { server: "bank", scopes }),
    );
    const named = { [AUTHORITY]: { invocation_id: "round-1" } };
    const answer = await bank.callTool({ name: "send_payment", arguments: PAYMENT, _meta: named });
    expect(answer).toMatchObject({ content: [{ text: `paid for ${app.person.humanId}` }] });
    const { payload, operation } = authorityOf(tools.paid[0]?.context ?? {});
    expect(payload).toMatchObject({ inputResponses: { confirm: { content: { amount: 999_999 } } } });
    expect(operation?.invocation_id).toMatch(/^round-1~[0-9a-f]{32}$/);
    await bank.close();
    await served.stop();
  });

  test.each([
    ["the new era", client],
    ["the old era", "client 2.x of the old era"],
  ] as const)("runs no further round with the first proof in %s: attack 1", async (_, used) => {
    tools.pay = payAfterConfirmation;
    const served = await SERVERS[server]({ guard, tools });
    const bank = await CLIENTS[used](served, (transport) => transport);
    const proof = await agentOf(app).prove({
      ...{ at: verifierOf(app), scope: SCOPE, action: "bank/send_payment", payload: { arguments: PAYMENT } },
    });
    const entry = { proof_ref: proof.proofRef, agent_id: proof.agentId, invocation_id: proof.invocationId };
    const call = { name: "send_payment", arguments: PAYMENT, _meta: { [AUTHORITY]: entry } };
    expect(await bank.callTool(call)).toMatchObject({ isError: true });
    expect(tools.paid).toEqual([]);
    await bank.close();
    await served.stop();
  });
});

describe("withAuthority", () => {
  type Sent = { id?: number; params: { _meta: Record<string, Record<string, unknown>> } };

  /** Connects two ends of a transport, and returns what arrives at the server's end. */
  async function link(settings: Partial<Parameters<typeof withAuthority>[2]> = {}) {
    const [near, far] = InMemoryTransport.createLinkedPair();
    const arrived: Sent[] = [];
    const received: object[] = [];
    far.onmessage = (message) => arrived.push(message as unknown as Sent);
    const scopes = { send_payment: SCOPE };
    const wrapped = withAuthority(near, agentOf(app), { server: "bank", scopes, ...settings });
    wrapped.onmessage = (message) => received.push(message);
    const send = (id: number, given: object, meta?: object) =>
      wrapped.send({
        ...{ jsonrpc: "2.0", id, method: "tools/call" },
        params: { name: "send_payment", arguments: { ...given }, ...(meta && { _meta: { ...meta } }) },
      });
    const entries = () =>
      arrived.filter(({ id }) => id !== undefined).map((each) => each.params._meta[AUTHORITY]);
    return { wrapped, far, send, arrived, received, entries };
  }

  const presented = async () =>
    (await world.api.db("audit_events").where({ event_type: "proof.presented" })).length;

  test("keeps the id of a lost call that is sent again, and of no other call: attack 11", async () => {
    const { wrapped, far, entries, send } = await link();
    const call = (id: number, given: object) =>
      wrapped.send({
        ...{ jsonrpc: "2.0", id, method: "tools/call" },
        params: { name: "send_payment", arguments: given as Record<string, unknown> },
      });
    const given = { ...PAYMENT };
    await call(1, given);
    await wrapped.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
    await call(2, given);
    await call(3, given);
    await far.send({ jsonrpc: "2.0", id: 3, result: {} });
    await call(4, given);
    await send(5, PAYMENT);
    await send(6, PAYMENT);
    await send(7, PAYMENT, { [AUTHORITY]: { invocation_id: "mine" } });
    await send(8, PAYMENT, { [AUTHORITY]: { invocation_id: "mine" } });
    const [first, ...ids] = entries().map((entry) => entry?.invocation_id);
    expect(ids[0]).toBe(first);
    expect(ids.slice(-2)).toEqual(["mine", "mine"]);
    expect(new Set([first, ...ids]).size).toBe(6);
  });

  test("passes no proof of another call on, and none to a tool without a scope: attack 9", async () => {
    const { send, arrived, entries } = await link();
    const outer = { proof_ref: "outer", agent_id: "other", invocation_id: "outer" };
    await send(1, PAYMENT, { [AUTHORITY]: outer, kept: {} });
    expect(entries()[0]).toMatchObject({
      agent_id: app.agentId,
      invocation_id: expect.not.stringMatching("outer"),
    });
    expect(arrived[0]?.params._meta.kept).toEqual({});
    const plain = await link({ scopes: {} });
    await plain.send(1, PAYMENT, { [AUTHORITY]: outer, kept: {} });
    expect(plain.arrived[0]?.params._meta).toEqual({ kept: {} });
  });

  test("follows no operation, verifier or link of a server's refusal: attack 5", async () => {
    const before = await presented();
    const { wrapped, far, send, received, arrived } = await link();
    await send(1, PAYMENT);
    const operation = { verifier_id: app.platform.connectionId, action: "bank/send_payment" };
    const entry = (endpoint: string) => ({
      ...{ code: "not_delegated", operation, verifier: operation, access_request: { endpoint } },
    });
    for (const endpoint of ["https://evil.example/v1/ask", `${world.api.url}/v1/ask`]) {
      await far.send({
        jsonrpc: "2.0",
        id: 1,
        result: { content: [], isError: true, _meta: { [AUTHORITY]: entry(endpoint) } },
      });
    }
    expect(arrived).toHaveLength(1);
    expect((await presented()) - before).toBe(1);
    const metas = received.map((message) => Reflect.get(message, "result")._meta[AUTHORITY]);
    expect(metas.map(({ access_request: request }) => request?.endpoint)).toEqual([
      undefined,
      `${world.api.url}/v1/ask`,
    ]);
    await wrapped.close();
  });

  test("asks a person with the option ask if the service makes no proof, and then sends the call", async () => {
    const without = await world.application([]);
    const [near, far] = InMemoryTransport.createLinkedPair();
    const arrived: Sent[] = [];
    far.onmessage = (message) => arrived.push(message as unknown as Sent);
    const scopes = { send_payment: SCOPE };
    const params = { name: "send_payment", arguments: { ...PAYMENT } };
    const call = { jsonrpc: "2.0" as const, id: 1, method: "tools/call", params };
    const plain = withAuthority(near, agentOf(without), { server: "bank", scopes });
    await expect(plain.send(call)).rejects.toThrow(NotDelegated);
    const asking = { purpose: "Pay Bob", waitMs: 20_000 };
    const questions: object[] = [];
    const agent = agentOf(without, { onAsk: (question) => questions.push(question) });
    const asker = withAuthority(near, agent, { server: "bank", scopes, ask: asking });
    const sending = asker.send(call);
    const asked = () =>
      world.api.db("delegation_requests").where({ agent_id: without.agentId }).first("request_id");
    await expect.poll(asked, { timeout: 10_000 }).toBeDefined();
    expect(arrived).toEqual([]);
    const { request_id: id = "" } = (await asked()) ?? {};
    await expect.poll(() => questions).toMatchObject([{ taskId: id, scope: SCOPE }]);
    const approved = await approve(without.person, id, [SCOPE], { once: true });
    expect(approved.status, approved.text).toBe(200);
    await sending;
    expect(arrived[0]?.params._meta[AUTHORITY]).toMatchObject({ agent_id: without.agentId });
    const wrong = { server: "bank", scopes, ask: { purpose: "Pay Bob", wait: 5 } as never };
    expect(() => withAuthority(near, agentOf(without), wrong)).toThrow("ask: unknown member wait");
  });

  test("sends nothing if the settings name no verifier, or the service makes no proof", async () => {
    const unknown = await link({ server: "evil" });
    await expect(unknown.send(1, PAYMENT)).rejects.toThrow(WrongVerifier);
    const denied = await link({ verifier: { verifierId: "https://bank.example", workspaceId: "nobody" } });
    await expect(denied.send(1, PAYMENT)).rejects.toThrow(WrongVerifier);
    const text = await link();
    await expect(text.send(1, { ...PAYMENT, note: "\ud800" })).rejects.toThrow(TypeError);
    await expect(text.send(2, PAYMENT, { [AUTHORITY]: { invocation_id: "a~1" } })).rejects.toThrow(TypeError);
    expect([unknown, denied, text].flatMap(({ arrived }) => arrived)).toEqual([]);
  });
});

test("an SDK 1.x server guards each item of an old-era array", async () => {
  const served = await SERVERS["SDK 1.x over HTTP"]({ guard, tools });
  const post = (body: object, session: string | null) =>
    fetch(new URL(served.url ?? ""), {
      method: "POST",
      headers: {
        ...{ "content-type": "application/json", accept: "application/json, text/event-stream" },
        ...(session && { "mcp-session-id": session }),
      },
      body: JSON.stringify(body),
    });
  const clientInfo = { name: "old", version: "1" };
  const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo };
  const started = await post({ jsonrpc: "2.0", id: 0, method: "initialize", params }, null);
  await started.text();
  const item = (id: number, amount: number) => ({
    ...{ jsonrpc: "2.0", id, method: "tools/call" },
    params: { name: "send_payment", arguments: { ...PAYMENT, amount }, _meta: { [AUTHORITY]: entry } },
  });
  const { proofRef, agentId, invocationId } = await agentOf(app).prove({
    ...{ at: "own", scope: SCOPE, action: "bank/send_payment", payload: { arguments: PAYMENT } },
  });
  const entry = { proof_ref: proofRef, agent_id: agentId, invocation_id: invocationId };
  const answer = await post([item(1, 999_999), item(2, 5)], started.headers.get("mcp-session-id"));
  const lines = (await answer.text()).split("\n").filter((line) => line.startsWith("data: {"));
  const results = Object.fromEntries(
    lines.map((line) => JSON.parse(line.slice(6))).map((each) => [each.id, each.result]),
  );
  expect(results).toMatchObject({
    1: { isError: true },
    2: { content: [{ text: expect.stringMatching("^paid") }] },
  });
  expect(tools.paid.map(({ arguments: given }) => given)).toEqual([PAYMENT]);
  await served.stop();
});
