import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { authorityOf, createGuard, type Guard } from "../../src/sdk/guard.ts";
import { APPLICATIONS, type Application, type Handler } from "./framework_apps.ts";
import { answering, answeringBoth, type StubService, startStub } from "./stub_service.ts";

const receipt = { receipt_id: "01a1fd7f-0000-7000-8000-000000000001" };
const ALLOW = { decision: "allow", decision_reason: "authorized", agent_id: "aa", receipt };
const bundle = JSON.stringify({ agent_id: "aa" });
const bound = {
  "x-service-proof": bundle,
  "x-service-invocation-id": "inv-1",
  "x-service-session-id": "s-1",
};

/** Errors from whose status Koa derives the response. The other frameworks call their own error handler. */
const THROWN_IN_KOA: [object, string][] = [
  [{ status: 409 }, "refused_by_receiver"],
  [{ statusCode: 404 }, "refused_by_receiver"],
  [{ status: 503 }, "failed"],
  [{ status: 200 }, "failed"],
];

describe.each(Object.entries(APPLICATIONS))("in %s", (framework, startApplication) => {
  let stub: StubService;
  let guard: Guard;
  let application: Application;
  const handler = vi.fn<Handler>();

  beforeEach(async () => {
    handler.mockReset();
    handler.mockImplementation(async ({ request }) => ({
      status: 200,
      body: { agent: authorityOf(request).agentId },
    }));
    stub = await startStub(answeringBoth(answering(200, ALLOW), answering(200, {})));
    guard = createGuard({
      baseUrl: stub.url,
      apiKey: "dpz_key",
      verifier: { verifierId: "v", workspaceId: "w" },
    });
    application = await startApplication(guard, handler);
  });
  afterEach(async () => {
    await application.stop();
    await guard.flush();
    await stub.stop();
  });

  async function send(
    path: string,
    options: { body?: string; headers?: Record<string, string>; method?: string } = {},
  ) {
    const { body, headers = {}, method = "POST" } = options;
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(`${application.url}${path}`, {
      method,
      headers: { ...type, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: text.startsWith("{") ? JSON.parse(text) : text,
      headers: response.headers,
    };
  }
  const asked = () =>
    stub.requests.filter(({ target }) => target.endsWith("/verify")).map(({ body }) => JSON.parse(body));
  const reported = async () => {
    await guard.flush();
    return stub.requests
      .filter(({ target }) => target.endsWith("/outcome"))
      .map(({ body }) => JSON.parse(body));
  };

  test("the handler runs after an allow decision and gets the frozen copy and the authority", async () => {
    const answer = await send("/orders", {
      headers: { "x-service-proof": bundle },
      body: '{"lines":[{"sku":1}]}',
    });
    expect(answer).toMatchObject({ status: 200, body: { agent: "aa" } });
    expect(asked()).toEqual([{ proof_bundle: { agent_id: "aa" }, required_scope: "data:write" }]);
    const [seen] = handler.mock.calls[0] ?? [];
    expect(seen?.body).toEqual({ lines: [{ sku: 1 }] });
    const { payload } = authorityOf(seen?.request ?? {});
    expect(seen?.body).toBe(payload);
    expect(Object.isFrozen((payload as { lines: object[] }).lines[0])).toBe(true);
  });

  test("a refusal contains a challenge if the caller asks for one and has shown no authority", async () => {
    const challenge = { challenge: "AQIDBA==", expires_at: "2026-01-01T00:00:00.000Z" };
    const deny = answering(200, { decision: "deny", decision_reason: "not_delegated" });
    const spent = answering(400, { error: { code: "invalid_challenge" } });
    const asking = { "x-service-challenge": "wanted" };
    const proving = { ...asking, "x-service-proof": bundle };
    const error = expect.objectContaining({ status: 403, code: "no_authority_demonstrated" });
    const answered = async (headers: Record<string, string>) => (await send("/orders", { headers })).body;
    stub.respond(answeringBoth(spent, answering(200, { ...challenge, verifier_id: "v" })));
    expect(await answered(asking)).toEqual({ error, challenge });
    expect(await answered(proving)).toEqual({ error, challenge });
    expect(await answered({})).toEqual({ error });
    expect(await answered({ "x-service-challenge": "no" })).toEqual({ error });
    stub.respond(answeringBoth(spent, answering(503, {})));
    expect(await answered(asking)).toEqual({ error });
    stub.respond(answeringBoth(deny, answering(200, challenge)));
    expect(await answered(proving)).toEqual({ error: expect.objectContaining({ code: "not_delegated" }) });
    expect(stub.requests.filter(({ target }) => target.endsWith("/challenge"))).toHaveLength(3);
    expect(handler).not.toHaveBeenCalled();
  });

  test("a refusal contains the denial's id if an approval could resolve it, and no address", async () => {
    const access_request = { endpoint: "https://mallory.example", expires_at: "2026-12-01T00:00:00.000Z" };
    const denial = { decision: "deny", decision_reason: "not_delegated", evaluation_id: "id-1" };
    stub.respond(answering(200, { ...denial, access_request }));
    const { body } = await send("/orders", { headers: { "x-service-proof": bundle } });
    const message = "The agent's authority does not permit this action";
    const error = { status: 403, code: "not_delegated", message };
    expect(body).toEqual({ error, evaluation_id: "id-1" });
  });

  test("an operation is bound to the path with its query, the body and the headers", async () => {
    await send("/orders/7/refund?fast=1", { headers: bound, body: '{"amount":5}' });
    expect(handler).toHaveBeenCalledOnce();
    expect(asked()[0]).toMatchObject({
      required_scope: "payments:send",
      context: { resource_id: "7", path: "/orders/7/refund" },
      operation: {
        verifier_id: "v",
        workspace_id: "w",
        agent_id: "aa",
        action: "refund",
        resource_id: "7",
        requested_path: "/orders/7/refund?fast=1",
        session_id: "s-1",
        invocation_id: "inv-1",
        payload_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      },
    });
    expect(await reported()).toMatchObject([{ outcome: "executed", detail: "HTTP 200" }]);
  });

  test("a header contains the agent id for a proof_ref", async () => {
    const headers = { ...bound, "x-service-proof": "AQAByA", "x-service-agent-id": "cc" };
    await send("/orders/7/refund", { headers });
    expect(asked()[0]).toMatchObject({ proof_ref: "AQAByA", operation: { agent_id: "cc" } });
    expect(asked()[0].operation).not.toHaveProperty("payload_digest");
  });

  test.each<[string, object, number, string]>([
    ["deny", { decision: "deny", decision_reason: "delegation_revoked" }, 403, "delegation_revoked"],
    ["indeterminate", { decision: "indeterminate" }, 503, "verification_unavailable"],
  ])("the handler does not run after %s", async (_decision, verdict, status, code) => {
    stub.respond(answering(200, verdict));
    const answer = await send("/orders", { headers: { "x-service-proof": bundle }, body: "{}" });
    expect(answer).toMatchObject({ status, body: { error: { code, status, message: expect.any(String) } } });
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(handler).not.toHaveBeenCalled();
  });

  test("the handler does not run if verify returns 400 or 500, if the service is unreachable, or without a proof", async () => {
    const headers = { "x-service-proof": bundle };
    stub.respond(answering(400, { error: { code: "invalid_challenge" } }));
    expect(await send("/orders", { headers })).toMatchObject({
      status: 403,
      body: { error: { code: "no_authority_demonstrated" } },
    });
    stub.respond(answering(500, ALLOW));
    expect(await send("/orders", { headers })).toMatchObject({ status: 503 });
    stub.respond((socket) => socket.destroy());
    expect(await send("/orders", { headers })).toMatchObject({ status: 503 });
    expect(stub.requests).toHaveLength(3);
    expect(await send("/orders")).toMatchObject({
      status: 403,
      body: { error: { code: "no_authority_demonstrated" } },
    });
    expect(stub.requests).toHaveLength(3);
    expect(handler).not.toHaveBeenCalled();
  });

  test("a mapped route requires its scope, and a route without a scope is refused", async () => {
    const headers = { "x-service-proof": bundle };
    expect(await send("/mapped/read", { headers, method: "GET" })).toMatchObject({ status: 200 });
    expect(asked()).toMatchObject([{ required_scope: "data:read" }]);
    expect(await send("/mapped/other", { headers, method: "GET" })).toMatchObject({ status: 403 });
    expect(asked()).toHaveLength(1);
    expect(handler).toHaveBeenCalledOnce();
  });

  test("a handler on a route without a guard gets no authority", async () => {
    expect(await send("/unguarded", { headers: { "x-service-proof": bundle } })).toMatchObject({
      status: 500,
    });
    await expect(handler.mock.results[0]?.value).rejects.toThrow("no guard has allowed this request");
  });

  test("a body of a type that no parser reads is refused if an operation is required", async () => {
    const headers = { ...bound, "content-type": "text/csv" };
    const sent = { method: "POST", headers, body: "amount,5" };
    const response = await fetch(`${application.url}/orders/7/refund`, sent);
    expect([403, 415]).toContain(response.status);
    expect(handler).not.toHaveBeenCalled();
    expect(asked()).toEqual([]);
  });

  test.each([
    [201, "executed"],
    [399, "executed"],
    [400, "refused_by_receiver"],
    [409, "refused_by_receiver"],
    [499, "refused_by_receiver"],
    [500, "failed"],
  ])("a response with status %i is reported as %s", async (status, outcome) => {
    handler.mockResolvedValue({ status, body: {} });
    expect(await send("/orders/7/refund", { headers: bound })).toMatchObject({ status });
    expect(await reported()).toMatchObject([{ outcome, receipt_id: receipt.receipt_id }]);
  });

  test("a handler that throws is reported as failed", async () => {
    handler.mockRejectedValue(new Error("no cover"));
    expect(await send("/orders/7/refund", { headers: bound })).toMatchObject({ status: 500 });
    expect(await reported()).toMatchObject([{ outcome: "failed" }]);
    expect(JSON.stringify(await reported())).not.toContain("no cover");
  });

  const thrown = framework === "koa" ? THROWN_IN_KOA : [];
  test.each(thrown)("an error with %j is reported as %s", async (members, outcome) => {
    handler.mockRejectedValue(Object.assign(new Error("refused"), members));
    await send("/orders/7/refund", { headers: bound });
    expect(await reported()).toMatchObject([{ outcome, detail: "Error" }]);
  });

  test("the outcome is reported even if the client has disconnected", async () => {
    let finish = () => {};
    handler.mockImplementation(async () => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return { status: 200, body: {} };
    });
    const { hostname, port } = new URL(application.url);
    const socket = connect(Number(port), hostname);
    const lines = Object.entries(bound).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`POST /orders/7/refund HTTP/1.1\r\nhost: x\r\n${lines.join("")}content-length: 0\r\n\r\n`);
    await expect.poll(() => handler.mock.calls.length).toBe(1);
    socket.destroy();
    await new Promise((resolve) => socket.on("close", resolve));
    finish();
    await expect.poll(reported).toMatchObject([{ outcome: "executed" }]);
  });
});
