import { once } from "node:events";
import { connect, createServer, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import Fastify from "fastify";
import Koa from "koa";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { authorityOf, createGuard, type Guard, guardFastify, guardKoa } from "../../src/sdk/guard.ts";
import { answering, answeringBoth, type StubService, startStub } from "./stub_service.ts";

const receipt = { receipt_id: "01a1fd7f-0000-7000-8000-000000000001" };
const ALLOW = { decision: "allow", decision_reason: "authorized", agent_id: "aa", receipt };
const bound = {
  "x-service-proof": JSON.stringify({ agent_id: "aa" }),
  "x-service-invocation-id": "inv-1",
};

type Handler = (seen: { body: unknown; payload: unknown }) => void;
type Start = (guard: Guard, handler: Handler) => Promise<{ port: number; stop(): Promise<void> }>;

async function listen(server: Http2Server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = async () => {
    server.close();
    await once(server, "close");
  };
  return { port: (server.address() as AddressInfo).port, stop };
}

const APPLICATIONS: Record<string, Start> = {
  async koa(guard, handler) {
    const app = new Koa();
    app.use(async (context, next) => {
      if (context.get("content-type") === "application/json") {
        const text = Buffer.concat(await context.req.toArray()).toString();
        Object.assign(context.request, { body: JSON.parse(text) });
      }
      await next();
    });
    app.use(guardKoa(guard, { requiredScope: "payments:send", operation: () => ({ action: "refund" }) }));
    app.use((context) => {
      const { body } = context.request as { body?: unknown };
      handler({ body, payload: authorityOf(context).payload });
      context.body = {};
    });
    return listen(createServer(app.callback()));
  },
  async fastify(guard, handler) {
    const app = Fastify({ http2: true });
    const route = { requiredScope: "payments:send", operation: () => ({ action: "refund" }) };
    app.post("/refund", { preHandler: guardFastify(guard, route) }, async (request) => {
      handler({ body: request.body ?? undefined, payload: authorityOf(request).payload });
      return {};
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    return { port: (app.server.address() as AddressInfo).port, stop: () => app.close() };
  },
};

describe.each(Object.entries(APPLICATIONS))("over HTTP/2, in %s", (_, start) => {
  let stub: StubService;
  let guard: Guard;
  let application: Awaited<ReturnType<Start>>;
  const handler = vi.fn<Handler>();

  beforeEach(async () => {
    handler.mockReset();
    stub = await startStub(answeringBoth(answering(200, ALLOW), answering(200, {})));
    const verifier = { verifierId: "v", workspaceId: "w" };
    guard = createGuard({ baseUrl: stub.url, apiKey: "dpz_key", verifier });
    application = await start(guard, handler);
  });
  afterEach(async () => {
    await application.stop();
    await guard.flush();
    await stub.stop();
  });

  /** Posts a body without a content length, as HTTP/2 allows. */
  async function send(body?: string, type = "application/json", length = {}): Promise<number> {
    const session = connect(`http://127.0.0.1:${application.port}`);
    const headers = { ":method": "POST", ":path": "/refund", ...bound, ...length };
    const request = session.request(body === undefined ? headers : { ...headers, "content-type": type }, {
      endStream: body === undefined && Object.keys(length).length === 0,
    });
    request.on("error", () => undefined);
    if (!request.writableEnded) request.end(body);
    const [answer] = await once(request, "response");
    request.resume();
    session.close();
    await once(session, "close");
    return answer[":status"];
  }

  const asked = () =>
    stub.requests.filter(({ target }) => target.endsWith("/verify")).map(({ body }) => JSON.parse(body));

  test("a body without a content length is bound like any other body", async () => {
    expect(await send('{"amount":5}')).toBe(200);
    expect(asked()[0].operation.payload_digest).toMatch(/^sha256:/);
    const [seen] = handler.mock.calls[0] ?? [];
    expect(seen?.body).toEqual({ amount: 5 });
    expect(seen?.payload).toBe(seen?.body);
  });

  test("a request without a body has no payload to bind", async () => {
    for (const length of [{}, { "content-length": "0" }]) {
      expect(await send(undefined, undefined, length)).toBe(200);
      expect(handler).toHaveBeenLastCalledWith({ body: undefined, payload: undefined });
    }
    expect(asked().map(({ operation }) => operation.payload_digest)).toEqual([undefined, undefined]);
  });

  test("a request whose body no parser has read is refused if an operation is required", async () => {
    expect([403, 415]).toContain(await send("amount,5", "text/csv"));
    expect(handler).not.toHaveBeenCalled();
    expect(asked()).toEqual([]);
  });
});
