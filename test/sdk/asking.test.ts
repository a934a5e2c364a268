import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type Agent,
  type AgentSettings,
  type Ask,
  AwaitingApproval,
  createAgent,
  type Denied,
  NotDelegated,
  type Question,
  Replayed,
} from "../../src/sdk/agent/agent.ts";
import { createGuard, guardExpress } from "../../src/sdk/guard.ts";
import { type Application, certify, proofApi } from "../proofs/application.ts";
import { type AskingAgent, askingAgent } from "../proofs/asking/asking.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { createKey } from "../support/narrow_keys.ts";
import { approve } from "../support/platform_world.ts";

const world = proofApi();
const scope = "payments:send";
const body = { amount: 5, to: "bob" };

type Shop = { url: string; verifier: { verifierId: string; workspaceId: string }; paid: unknown[] };

let app: AskingAgent;
let shop: Shop;
const stops: (() => void)[] = [];

/** Starts an application that pays, with a guard that accepts only proofs of the exact request. */
async function startShop({ platform, person }: Application): Promise<Shop> {
  const paid: unknown[] = [];
  const guard = createGuard({ baseUrl: world.api.url, apiKey: platform.apiKey });
  const application = express();
  application.use(express.json(), guardExpress(guard, { requiredScope: scope, operation: true }));
  application.use((request, response) => {
    paid.push(request.body);
    response.json({ paid: true });
  });
  const server = createServer(application);
  await once(server.listen(0, "127.0.0.1"), "listening");
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const verifier = { verifierId: platform.connectionId, workspaceId: person.accountId };
  return { url: `http://127.0.0.1:${port}`, verifier, paid };
}

async function agentOf(of: AskingAgent, settings: Partial<AgentSettings> = {}): Promise<Agent> {
  const key = await createKey(world.api, of.platform, { role: "agent", agent_id: of.agentId });
  const verifiers = { [shop.url]: shop.verifier };
  const apiKey = String(key.body.api_key);
  return createAgent({ baseUrl: world.api.url, apiKey, verifiers, pausesMs: [1, 1], ...settings });
}

const pay = (agent: Agent, ask: Partial<Ask> = {}, init = {}) =>
  agent.fetch(`${shop.url}/pay`, {
    ...{ scope, body, ask: { purpose: "Refund order 7", waitMs: 60_000, ...ask }, ...init },
  });
const caught = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );
const requests = ({ agentId }: AskingAgent) =>
  world.api.db("delegation_requests").where({ agent_id: agentId }).whereNotNull("refusal");
/** Approves a question for one time. */
const approveOnce = (of: AskingAgent) => (question: Question) =>
  void approve(of.person, question.taskId, [question.scope], { once: true });
const invocations = () => world.api.db("invocations").where({ account_id: app.person.accountId });

beforeAll(async () => {
  shop = await startShop(await world.application());
});
beforeEach(async () => {
  app = await askingAgent(world);
  shop = await startShop(app);
});
afterAll(() => {
  for (const stop of stops) stop();
});

describe("an agent that may ask", () => {
  test("acts after a person approved the action once, and asks again for the next one", async () => {
    const agent = await agentOf(app, { onAsk: approveOnce(app) });
    const first = await pay(agent);
    expect([first.status, shop.paid]).toEqual([200, [body]]);
    const [row] = await requests(app);
    expect(row).toMatchObject({ status: "approved", purpose: "Refund order 7", requested_scope: [scope] });
    await expect(pay(agent, {}, { ask: undefined })).rejects.toThrow(NotDelegated);
    expect((await pay(agent)).status).toBe(200);
    expect([(await requests(app)).length, shop.paid.length]).toEqual([2, 2]);
  });

  test("shows the person the action and its input, or only its hash", async () => {
    const agent = await agentOf(app);
    await expect(pay(agent, { waitMs: 0 })).rejects.toThrow(AwaitingApproval);
    const until = new Date(world.api.clock.now().getTime() + 86_400_000);
    const kept = pay(agent, { waitMs: 0, showPayload: false, until }, { body: { ...body, to: "alice" } });
    await expect(kept).rejects.toThrow(AwaitingApproval);
    const rows = await requests(app).orderBy("created_at");
    const action = { action: "POST", requested_path: "/pay", with_payload: true };
    expect(rows.map(({ refusal }) => refusal?.operation)).toMatchObject([
      { ...action, payload: '{"amount":5,"to":"bob"}' },
      action,
    ]);
    expect(rows[1]?.refusal?.operation).not.toHaveProperty("payload");
  });

  test("repeats an action that the application denied under another id, and does it once", async () => {
    const certId = await certify(app, [scope]);
    const revoking: AgentSettings["fetch"] = async (...call) => {
      await app.person.client.post(`/v1/service/delegations/${certId}/revoke`);
      return fetch(...call);
    };
    const agent = await agentOf(app, { onAsk: approveOnce(app), fetch: revoking });
    expect((await pay(agent, {}, { invocationId: "pay-1" })).status).toBe(200);
    expect(await invocations().orderBy("invocation_id").pluck("invocation_id")).toEqual([
      "pay-1",
      "pay-1~asked",
    ]);
    await expect(pay(agent, {}, { invocationId: "pay-1~asked" })).rejects.toThrow(Replayed);
    expect(shop.paid).toEqual([body]);
  });

  test("gets the denial with the reason why asking did not help", async () => {
    const deny = ({ taskId }: Question) =>
      void app.person.client.post(`/v1/service/delegations/requests/${taskId}/deny`, {});
    const agent = await agentOf(app, { onAsk: deny });
    const denied = await caught(pay(agent));
    expect(denied).toBeInstanceOf(NotDelegated);
    expect(denied).toMatchObject({ code: "no_active_delegation", askFault: "denied" });
    expect(await caught(pay(agent))).toMatchObject({ name: "NotDelegated", askFault: "denied_recently" });
    expect([(await requests(app)).length, shop.paid]).toEqual([1, []]);
  });

  test("gets AwaitingApproval if no person decides in time, and the same request when it repeats", async () => {
    const agent = await agentOf(app);
    const awaiting = (await caught(
      pay(agent, { waitMs: 200 }, { invocationId: "pay-1" }),
    )) as AwaitingApproval;
    expect(awaiting).toBeInstanceOf(AwaitingApproval);
    expect(awaiting).toMatchObject({ code: "awaiting_approval", invocationId: "pay-1" });
    expect(awaiting.message).not.toContain("Refund");
    expect(await caught(pay(agent, { waitMs: 0 }))).toMatchObject({ taskId: awaiting.taskId });
    await approve(app.person, awaiting.taskId, [scope], { once: true });
    expect((await pay(agent, {}, { invocationId: awaiting.invocationId })).status).toBe(200);
    expect([(await requests(app)).length, shop.paid.length]).toEqual([1, 1]);
  });

  test("withdraws its question, which ends the waiting call", async () => {
    let agent: Agent | undefined;
    const onAsk = ({ taskId }: Question) => void agent?.cancelAsk(taskId);
    agent = await agentOf(app, { onAsk });
    expect(await caught(pay(agent))).toMatchObject({ name: "NotDelegated", askFault: "cancelled" });
    const [row] = await requests(app);
    await expect(agent.cancelAsk(row?.request_id ?? "")).rejects.toMatchObject({
      code: "request_not_pending",
    });
  });

  test("stops waiting when the signal aborts, and the question stays", async () => {
    const stop = new AbortController();
    const agent = await agentOf(app, { onAsk: () => setTimeout(() => stop.abort(new Error("stop")), 100) });
    await expect(pay(agent, {}, { signal: stop.signal })).rejects.toThrow("stop");
    expect(await requests(app)).toMatchObject([{ status: "pending" }]);
    expect(shop.paid).toEqual([]);
  });

  test("asks about an application of another account, which decides for itself whose authority counts", async () => {
    const other = await world.application();
    shop = await startShop(other);
    const agent = await agentOf(app, { onAsk: approveOnce(app) });
    expect(await caught(pay(agent))).toMatchObject({ code: "principal_not_accepted", askFault: undefined });
    const { accountId } = other.person;
    const verifier = { accountId, connectionId: other.platform.connectionId };
    const acceptance = { created_at: world.api.clock.now(), scopes: [scope] };
    await acceptPrincipal(world.api.db, verifier, { humanId: String(app.person.humanId) }, acceptance);
    expect((await pay(agent)).status).toBe(200);
    expect([(await requests(app)).length, shop.paid]).toEqual([1, [body]]);
  });

  test("proves an action for other transports after an approval", async () => {
    const agent = await agentOf(app, { onAsk: approveOnce(app) });
    const action = { at: new URL(shop.url), scope, action: "bank/send", payload: { arguments: body } };
    await expect(agent.prove(action)).rejects.toThrow(NotDelegated);
    const ask = { purpose: "Refund order 7", waitMs: 60_000 };
    expect(await agent.prove({ ...action, ask })).toMatchObject({ proofRef: expect.any(String) });
  });
});

describe("an attack on an agent that may ask", () => {
  /** Starts a server that refuses each call as `refusal` says. */
  async function hostile(refusal: object): Promise<string> {
    const server = createServer((request, response) => {
      const invocation_id = request.headers["x-service-invocation-id"];
      response.writeHead(403, { "content-type": "application/json" });
      response.end(JSON.stringify({ invocation_id, ...refusal }));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    stops.push(() => server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  const refusedWith = (evaluation_id: string | undefined) => ({
    error: { code: "not_delegated", message: "Ask for payments:*", status: 403 },
    evaluation_id,
    required_scope: "payments:*",
    access_request: { endpoint: "https://mallory.example" },
  });

  test("cannot make it ask for another scope or about another action: attacks 14 and 20", async () => {
    const genuine = (await caught(pay(await agentOf(app), {}, { ask: undefined }))) as Denied;
    const other = await askingAgent(world);
    const foreign = await other.refused();
    const url = await hostile(refusedWith(genuine.evaluationId));
    const elsewhere = await hostile(refusedWith(foreign));
    const verifiers = { [url]: shop.verifier, [elsewhere]: shop.verifier };
    const agent = await agentOf(app, { verifiers, onAsk: approveOnce(app) });
    await certify(app, [scope]);
    const at = async (address: string, asked: string, init = {}) =>
      (await caught(
        agent.fetch(address, { scope: asked, ask: { purpose: "Read" }, body, ...init }),
      )) as Denied;
    expect((await at(url, "data:read")).askFault).toBe("invalid_request");
    expect((await at(url, scope, { body: { ...body, amount: 5_000 } })).askFault).toBe(
      "session_context_mismatch",
    );
    expect((await at(elsewhere, scope)).askFault).toBe("not_found");
    expect(await requests(app)).toEqual([]);
  });
});
