import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Agent, createAgent, NotProven } from "../../src/sdk/agent/agent.ts";
import { authorityOf, createGuard, type Guard, guardFetch } from "../../src/sdk/guard.ts";
import { type Application, proofApi } from "../proofs/application.ts";

const world = proofApi();
const scope = "payments:send";
const ADDRESS = "https://shop.example/orders?fast=1";

let app: Application;
let guard: Guard;
let handled: unknown[] = [];
let serve: (request: Request, ...rest: [number]) => Promise<Response>;

beforeAll(async () => {
  app = await world.application();
  guard = createGuard({ baseUrl: world.api.url, apiKey: app.platform.apiKey });
  serve = guardFetch(
    guard,
    { requiredScope: scope, operation: true },
    (request, authority, params: number) => {
      expect(authorityOf(request)).toBe(authority);
      if (request.headers.get("x-fail") !== null) throw new RangeError("no cover");
      handled.push([request.method, authority.payload, params]);
      return Response.json({ agent: authority.agentId }, { status: 201 });
    },
    { maxBodyBytes: 1_000 },
  );
});
beforeEach(() => {
  handled = [];
});

/** Creates an agent whose requests reach the guarded handler without a server. */
function agentOf(change: (request: Request) => Request = (request) => request): Agent {
  return createAgent({
    baseUrl: world.api.url,
    apiKey: app.platform.apiKey,
    agentId: app.agentId,
    verifiers: { "https://shop.example": "own" },
    fetch: (url, init) => serve(change(new Request(url, init)), 7),
  });
}

describe("a handler behind guardFetch", () => {
  test("gets requests of an agent with the frozen body, the authority and the framework's arguments", async () => {
    const agent = agentOf();
    const answer = await agent.fetch(ADDRESS, { scope, body: { count: 1.5 } });
    expect([answer.status, await answer.json()]).toEqual([201, { agent: app.agentId }]);
    await agent.fetch(ADDRESS, { scope, body: Buffer.from("coal,3") });
    await agent.fetch(ADDRESS, { scope, method: "DELETE" });
    expect(handled).toEqual([
      ["POST", { count: 1.5 }, 7],
      ["POST", Buffer.from("coal,3"), 7],
      ["DELETE", undefined, 7],
    ]);
    expect(Object.isFrozen((handled[0] as unknown[])[1])).toBe(true);
  });

  test("does not run for a changed body, method or path", async () => {
    const changed = (init: RequestInit, url = ADDRESS) =>
      agentOf(({ headers }) => new Request(url, { headers, ...init }));
    const post = { method: "POST", body: '{"count":1}' };
    for (const agent of [
      changed({ ...post, body: '{"count":10}' }),
      changed({ ...post, body: "" }),
      changed({ ...post, method: "PUT" }),
      changed(post, "https://shop.example/orders"),
    ]) {
      await expect(agent.fetch(ADDRESS, { scope, body: { count: 1 } })).rejects.toThrow(NotProven);
    }
    expect(handled).toEqual([]);
  });

  test.each([
    ["nonsense", 400],
    ['{"count":1,"count":2}', 400],
    ['{"count":9007199254740993}', 400],
    [Buffer.from('{"item":"\xff"}', "latin1"), 400],
    [`"${"a".repeat(999)}"`, 413],
  ])("does not run for the JSON body %s, and answers %i", async (body, status) => {
    const headers = { "content-type": "application/json; charset=utf-8", "x-service-proof": "AQ" };
    const answer = await serve(new Request(ADDRESS, { method: "POST", headers, body }), 7);
    expect([answer.status, handled]).toEqual([status, []]);
    expect(await answer.json()).toMatchObject({ error: { code: "invalid_request", status } });
  });

  test("does not run without a proof, and the refusal contains a challenge on request", async () => {
    const answer = await serve(new Request(ADDRESS, { headers: { "x-service-challenge": "wanted" } }), 7);
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([403, "no-store"]);
    expect(await answer.json()).toMatchObject({
      error: { code: "no_authority_demonstrated", status: 403 },
      challenge: { challenge: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/) },
    });
    expect(handled).toEqual([]);
  });

  test("does not run without a proof, and the guard reads no part of the body", async () => {
    let parts = 0;
    const body = new ReadableStream(
      {
        pull(controller) {
          parts += 1;
          controller.enqueue(Buffer.alloc(100, " "));
        },
      },
      { highWaterMark: 0 },
    );
    const answer = await serve(new Request(ADDRESS, { method: "POST", body, duplex: "half" }), 7);
    expect([answer.status, parts, handled]).toEqual([403, 0, []]);
    const headers = { "x-service-proof": "AQ" };
    const sent = new Request(ADDRESS, { method: "POST", headers, body, duplex: "half" });
    expect([(await serve(sent, 7)).status, parts]).toEqual([413, 11]);
  });

  test("has its outcome reported by its status, and as failed if it throws", async () => {
    const outcomeOf = async (invocationId: string, headers: Record<string, string>) => {
      await agentOf()
        .fetch(ADDRESS, { scope, invocationId, headers })
        .catch(() => undefined);
      await guard.flush();
      return world.api
        .db("invocations as i")
        .join("outcomes as o", "o.event_id", "i.event_id")
        .where({ "i.invocation_id": invocationId })
        .first("o.outcome", "o.detail");
    };
    expect(await outcomeOf("web-1", {})).toEqual({ outcome: "executed", detail: "HTTP 201" });
    expect(await outcomeOf("web-2", { "x-fail": "1" })).toEqual({ outcome: "failed", detail: "RangeError" });
  });
});

test("guardFetch names what it got instead of a request with a body", async () => {
  const raw = new Request(ADDRESS, { method: "POST", body: "{}", headers: { "x-service-proof": "AQ" } });
  const honoRequest = { raw, url: ADDRESS, method: "POST", header: () => undefined };
  for (const wrong of [honoRequest, { req: honoRequest }, undefined]) {
    await expect(serve(wrong as never, 7)).rejects.toThrow(
      "request: must be a Request. In Hono, pass c.req.raw",
    );
  }
  await raw.text();
  await expect(serve(raw, 7)).rejects.toThrow("request: its body was read before.");
});

test("guardFetch throws a TypeError for a scope that no certificate can grant", () => {
  expect(() => guardFetch(guard, { requiredScope: "data:*" }, () => new Response())).toThrow(TypeError);
});
