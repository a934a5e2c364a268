import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClusterAccess } from "../../src/kubernetes/access.ts";
import { type ClusterCall, type ClusterClient, createClusterClient } from "../../src/kubernetes/client.ts";
import { ClusterError, ClusterRefused } from "../../src/kubernetes/cluster_error.ts";

const list: ClusterCall = {
  verb: "list",
  resource: "platforms",
  path: "/platforms",
  query: { limit: "500" },
};
const DEADLINE_MS = 1500;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

describe("the client of a cluster", () => {
  const server = createServer((request, response) => handler(request, response));
  let handler: Handler;
  let client: ClusterClient;
  let access: ClusterAccess & { forgotten: number };
  let asked: IncomingMessage[];

  beforeEach(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    asked = [];
    access = {
      server: `http://127.0.0.1:${(server.address() as AddressInfo).port}/behind`,
      namespace: undefined,
      forgotten: 0,
      credentials: async () => ({ headers: { authorization: `Bearer token-${access.forgotten}` }, tls: {} }),
      forget() {
        access.forgotten += 1;
      },
    };
    client = createClusterClient({ access, deadlineMs: DEADLINE_MS });
  });

  afterEach(async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });

  /** Answers in this order; the last one again and again. */
  function answers(...all: [number, object | string, Record<string, string>?][]): void {
    handler = (request, response) => {
      const [status, body, headers] = all[Math.min(asked.length, all.length - 1)] as (typeof all)[number];
      asked.push(request);
      response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
    };
  }

  const failure = (call: Promise<unknown>): Promise<ClusterError> =>
    call.then(
      () => Promise.reject(new Error("it succeeded")),
      (error) => error as ClusterError,
    );

  async function watched(signal = AbortSignal.timeout(5000)): Promise<unknown[]> {
    const events: unknown[] = [];
    for await (const event of client.watch({ ...list, verb: "watch", signal })) events.push(event);
    return events;
  }

  test("sends a call below the server's path, with the credentials", async () => {
    answers([200, { items: [] }]);
    expect(await client.call(list)).toEqual({ items: [] });
    expect(asked[0]).toMatchObject({ method: "GET", url: "/behind/platforms?limit=500" });
    expect(asked[0]?.headers.authorization).toBe("Bearer token-0");
  });

  test("uses its connections again for one call after the other", async () => {
    answers([200, {}]);
    for (let count = 0; count < 10; count += 1) await client.call(list);
    expect(new Set(asked.map(({ socket }) => socket)).size).toBeLessThanOrEqual(2);
  });

  test("names a patch as a merge patch", async () => {
    answers([200, {}]);
    await client.call({ ...list, verb: "patch", body: {} });
    expect(asked[0]).toMatchObject({ method: "PATCH" });
    expect(asked[0]?.headers["content-type"]).toBe("application/merge-patch+json");
  });

  test.each([400, 403, 413, 422])("calls %i a refusal, with verb and resource", async (status) => {
    answers([status, { kind: "Status", reason: "Invalid", message: "secret-body" }]);
    const error = await failure(client.call({ ...list, verb: "create", body: { data: "secret-data" } }));
    expect(error).toBeInstanceOf(ClusterRefused);
    expect(error).toMatchObject({ verb: "create", resource: "platforms", status, reason: "Invalid" });
    expect(error.message).toBe(`create platforms: ${status} Invalid`);
  });

  test.each([404, 409, 410, 500, 503])("calls %i no refusal", async (status) => {
    answers([status, { reason: "Reason" }]);
    const error = await failure(client.call(list));
    expect(error).toBeInstanceOf(ClusterError);
    expect(error).not.toBeInstanceOf(ClusterRefused);
    expect(error).toMatchObject({ status, reason: "Reason" });
  });

  test("quotes nothing of bodies, headers and tokens in an error", async () => {
    answers([403, { reason: "secret reason", message: "secret-message" }, { "x-secret": "secret-header" }]);
    const error = await failure(client.call({ ...list, verb: "create", body: { data: "secret-data" } }));
    expect(`${JSON.stringify(error)} ${error.message} ${error.stack}`).not.toMatch(/secret|token-/);
    expect(error.cause).toBeUndefined();
  });

  test("reads the credentials again when they are refused, and asks once more", async () => {
    answers([401, {}], [200, { kind: "List" }]);
    expect(await client.call(list)).toEqual({ kind: "List" });
    expect(asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer token-0", "Bearer token-1"]);
    answers([401, {}]);
    asked = [];
    expect(await failure(client.call(list))).toMatchObject({ status: 401 });
    expect(asked.length).toBe(2);
  });

  test.each([429, 503])("waits as long as %i says, then asks again", async (status) => {
    answers([status, {}, { "retry-after": "1" }], [200, {}]);
    const start = performance.now();
    await client.call(list);
    expect(performance.now() - start).toBeGreaterThanOrEqual(990);
  });

  test("does not wait beyond its deadline, and says how long to wait", async () => {
    answers([429, {}, { "retry-after": "60" }]);
    const start = performance.now();
    expect(await failure(client.call(list))).toMatchObject({ status: 429, retryAfterMs: 60_000 });
    expect(performance.now() - start).toBeLessThan(DEADLINE_MS);
    expect(asked.length).toBe(1);
  });

  test("gives up a call that is not answered, or not to its end, within its deadline", async () => {
    handler = () => undefined;
    expect(await failure(client.call(list))).toMatchObject({ reason: "Timeout", status: undefined });
    handler = (_, response) => void response.writeHead(200).write("{");
    expect(await failure(client.call(list))).toMatchObject({ reason: "Timeout" });
  });

  test("gives up credentials that do not come", async () => {
    answers([200, {}]);
    access.credentials = () => new Promise(() => undefined);
    expect(await failure(client.call(list))).toMatchObject({ reason: "Timeout" });
    access.credentials = () => Promise.reject(new Error("secret of a plugin"));
    expect(await failure(client.call(list))).toMatchObject({ message: "list platforms: NoCredentials" });
  });

  test("names a broken connection and an answer that is not JSON", async () => {
    answers([200, "<html>"]);
    expect(await failure(client.call(list))).toMatchObject({ reason: "BadAnswer" });
    handler = (request) => void request.socket.destroy();
    expect((await failure(client.call(list))).message).toMatch(
      /^list platforms: (UND_ERR_SOCKET|ECONNRESET)$/,
    );
  });

  test("gives up a connection that is not made within the deadline", async () => {
    const sockets: Socket[] = [];
    const silent = createTcpServer((socket) => void sockets.push(socket.on("error", () => undefined)));
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    access.server = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const start = performance.now();
    expect(await failure(client.call(list))).toMatchObject({ reason: "Timeout" });
    expect(performance.now() - start).toBeLessThan(2 * DEADLINE_MS);
    for (const socket of sockets) socket.destroy();
    silent.close();
    await once(silent, "close");
  });

  const silence: Handler = () => undefined;
  const halfAnswer: Handler = (_, response) => void response.writeHead(200).write("{}\n");
  const longWait: Handler = (_, response) => void response.writeHead(429, { "retry-after": "20" }).end("{}");
  test.each([
    ["a server that is silent", silence],
    ["half an answer", halfAnswer],
    ["a wait that the cluster asked for", longWait],
  ])("ends calls and watches immediately when it is closed: %s", async (_, given) => {
    await client.close();
    client = createClusterClient({ access, deadlineMs: 60_000 });
    const arrived = Promise.withResolvers<void>();
    handler = (request, response) => {
      given(request, response);
      if (request.url?.includes("second")) arrived.resolve();
    };
    const signal = new AbortController().signal;
    const events = client.watch({ ...list, verb: "watch", signal });
    const watching = failure(Array.fromAsync(events));
    const calls = ["first", "second"].map((path) => failure(client.call({ ...list, path: `/${path}` })));
    await arrived.promise;
    await sleep(100);
    const start = performance.now();
    await client.close();
    for (const error of await Promise.all([...calls, watching])) expect(error).toBeInstanceOf(ClusterError);
    expect(await failure(client.call(list))).toMatchObject({ reason: "Aborted" });
    expect(performance.now() - start).toBeLessThan(1000);
  });

  test("gives a watch's lines, whole ones only, however they arrive", async () => {
    handler = (_, response) => {
      const bytes = Buffer.from('{"type":"ä"}\n\n{"type":"B"}\n{"type":"half');
      response.writeHead(200);
      for (const byte of bytes) response.write(Buffer.of(byte));
      response.end();
    };
    expect(await watched()).toEqual([{ type: "ä" }, { type: "B" }]);
  });

  test("gives the error of a watch that is refused, cut, or not JSON", async () => {
    answers([410, { reason: "Expired" }]);
    expect(await failure(watched())).toMatchObject({ verb: "watch", status: 410, reason: "Expired" });
    handler = (_, response) => void response.writeHead(200).write("{}\n", () => response.destroy());
    expect(await failure(watched())).toBeInstanceOf(ClusterError);
    answers([200, "<html>\n"]);
    expect(await failure(watched())).toMatchObject({ reason: "BadAnswer" });
  });

  test("gives up a watch that is not answered within the deadline, but lets one last that is", async () => {
    handler = () => undefined;
    expect(await failure(watched())).toMatchObject({ reason: "Timeout" });
    handler = (_, response) => {
      response.writeHead(200).write("{}\n");
      setTimeout(() => response.end('{"type":"late"}\n'), DEADLINE_MS + 300);
    };
    expect(await watched()).toEqual([{}, { type: "late" }]);
  });

  test("ends a watch with its signal", async () => {
    handler = (_, response) => void response.writeHead(200).write("{}\n");
    expect(await failure(watched(AbortSignal.timeout(300)))).toBeInstanceOf(ClusterError);
  });
});
