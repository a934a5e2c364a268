import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { TLSSocket } from "node:tls";
import { KubeConfig, Watch } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClusterAccess } from "../../src/kubernetes/access.ts";
import { type ClusterClient, createClusterClient } from "../../src/kubernetes/client.ts";
import { ClusterError, ClusterRefused } from "../../src/kubernetes/cluster_error.ts";
import { selfSigned } from "../events/support/certificate.ts";

const PATH = "/apis/things.test/v1/platforms";
const PLACE = { group: "things.test", version: "v1", plural: "platforms", namespace: "shop" };
/** Long, so that calls succeed on a busy machine. A test that proves a deadline connects with a short one. */
const DEADLINE_MS = 20_000;
const SHORT_MS = 250;

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
    await connect();
  });

  async function connect(deadlineMs = DEADLINE_MS): Promise<void> {
    await client?.close();
    client = await createClusterClient({ access, deadlineMs });
  }

  afterEach(async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });

  /** Sets the server's responses. The server repeats the last one. */
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

  const list = (options?: Parameters<ClusterClient["custom"]["listCustomObjectForAllNamespaces"]>[1]) =>
    client.custom.listCustomObjectForAllNamespaces(
      { group: "things.test", version: "v1", resourcePlural: "platforms", limit: 500 },
      options,
    );
  const create = (body: object) => client.custom.createNamespacedCustomObject({ ...PLACE, body });

  async function watched(signal = AbortSignal.timeout(DEADLINE_MS)): Promise<unknown[]> {
    const events: unknown[] = [];
    await client.watch({ path: PATH, query: {}, signal, onEvent: (event) => events.push(event) });
    return events;
  }

  test("sends a call to a path below the server's path, with the credentials", async () => {
    answers([200, { items: [] }]);
    expect(await list()).toEqual({ items: [] });
    expect(asked[0]).toMatchObject({ method: "GET", url: `/behind${PATH}?limit=500` });
    expect(asked[0]?.headers.authorization).toBe("Bearer token-0");
  });

  test("reuses its connections", async () => {
    answers([200, {}]);
    for (let count = 0; count < 10; count += 1) await list();
    expect(new Set(asked.map(({ socket }) => socket)).size).toBeLessThanOrEqual(2);
  });

  test("sends a patch as a merge patch", async () => {
    answers([200, {}]);
    await client.custom.patchNamespacedCustomObjectStatus({ ...PLACE, name: "bot", body: {} });
    expect(asked[0]).toMatchObject({
      method: "PATCH",
      url: "/behind/apis/things.test/v1/namespaces/shop/platforms/bot/status",
    });
    expect(asked[0]?.headers["content-type"]).toBe("application/merge-patch+json");
  });

  test.each([400, 403, 413, 422])(
    "reports status %i as a refusal, with verb and resource",
    async (status) => {
      answers([status, { kind: "Status", reason: "Invalid", message: "secret-body" }]);
      const error = await failure(create({ data: "secret-data" }));
      expect(error).toBeInstanceOf(ClusterRefused);
      expect(error).toMatchObject({ verb: "create", resource: "platforms", status, reason: "Invalid" });
      expect(error.message).toBe(`create platforms: ${status} Invalid`);
    },
  );

  test.each([404, 409, 410, 500, 503])(
    "reports status %i as an error but not as a refusal",
    async (status) => {
      answers([status, { reason: "Reason" }]);
      const error = await failure(list());
      expect(error).toBeInstanceOf(ClusterError);
      expect(error).not.toBeInstanceOf(ClusterRefused);
      expect(error).toMatchObject({ status, reason: "Reason" });
    },
  );

  test("never quotes bodies, headers or tokens in an error", async () => {
    answers([403, { reason: "secret reason", message: "secret-message" }, { "x-secret": "secret-header" }]);
    const error = await failure(create({ data: "secret-data" }));
    expect(`${JSON.stringify(error)} ${error.message} ${error.stack}`).not.toMatch(/secret|token-/);
    expect(error.cause).toBeUndefined();
  });

  test("reads the credentials again after status 401, and repeats the call once", async () => {
    answers([401, {}], [200, { kind: "List" }]);
    expect(await list()).toEqual({ kind: "List" });
    expect(asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer token-0", "Bearer token-1"]);
    answers([401, {}]);
    asked = [];
    expect(await failure(list())).toMatchObject({ status: 401 });
    expect(asked.length).toBe(2);
  });

  test("waits for the time in the Retry-After of a 429 or 503 response, then repeats the call", async () => {
    const seen: { name: string; at: number }[] = [];
    handler = ({ url = "" }, response) => {
      const name = url.split("/").at(-1) ?? "";
      seen.push({ name, at: performance.now() });
      const isFirst = seen.filter((call) => call.name === name).length === 1;
      response.writeHead(isFirst ? Number(name) : 200, isFirst ? { "retry-after": "1" } : {}).end("{}");
    };
    const names = ["429", "503", "500"];
    await Promise.all(names.map((name) => client.custom.getNamespacedCustomObject({ ...PLACE, name })));
    for (const name of names) {
      const [first, second] = seen.filter((call) => call.name === name);
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(990);
    }
  });

  test("does not wait beyond its deadline, and reports the requested wait", async () => {
    answers([429, {}, { "retry-after": "20" }]);
    expect(await failure(list())).toMatchObject({ status: 429, retryAfterMs: 20_000 });
    expect(asked.length).toBe(1);
  });

  test("gives up a call at the call's deadline if the response is incomplete", async () => {
    await connect(SHORT_MS);
    handler = () => undefined;
    expect(await failure(list())).toMatchObject({ reason: "Timeout", status: undefined });
    handler = (_, response) => void response.writeHead(200).write("{");
    expect(await failure(list())).toMatchObject({ reason: "Timeout" });
  });

  test("gives up waiting for credentials that do not arrive", async () => {
    await connect(SHORT_MS);
    answers([200, {}]);
    access.credentials = () => new Promise(() => undefined);
    expect(await failure(list())).toMatchObject({ reason: "Timeout" });
    access.credentials = () => Promise.reject(new Error("secret of a plugin"));
    expect(await failure(list())).toMatchObject({ message: "list platforms: NoCredentials" });
  });

  test("reports a broken connection and a response that is not JSON", async () => {
    answers([200, "<html>"]);
    expect(await failure(list())).toMatchObject({ reason: "BadAnswer" });
    handler = (request) => void request.socket.destroy();
    expect((await failure(list())).message).toMatch(/^list platforms: (UND_ERR_SOCKET|ECONNRESET)$/);
  });

  test("gives up a connection that cannot be opened within the deadline", async () => {
    const sockets: Socket[] = [];
    const silent = createTcpServer((socket) => void sockets.push(socket.on("error", () => undefined)));
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    access.server = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    await connect(SHORT_MS);
    expect(await failure(list())).toMatchObject({ reason: "Timeout" });
    for (const socket of sockets) socket.destroy();
    silent.close();
    await once(silent, "close");
  });

  const silence: Handler = () => undefined;
  const halfAnswer: Handler = (_, response) => void response.writeHead(200).write("{}\n");
  const longWait: Handler = (_, response) => void response.writeHead(429, { "retry-after": "20" }).end("{}");
  test.each([
    ["a silent server", silence],
    ["half an answer", halfAnswer],
    ["a wait that the cluster asked for", longWait],
  ])("aborts calls and watches immediately when it is closed during %s", async (_, given) => {
    await connect(60_000);
    const arrived = Promise.withResolvers<void>();
    handler = (request, response) => {
      given(request, response);
      if (request.url?.includes("second")) arrived.resolve();
    };
    const watching = failure(watched(AbortSignal.timeout(60_000)));
    const calls = ["first", "second"].map((name) =>
      failure(client.custom.getNamespacedCustomObject({ ...PLACE, name })),
    );
    await arrived.promise;
    await sleep(100);
    const start = performance.now();
    await client.close();
    for (const error of await Promise.all([...calls, watching])) expect(error).toBeInstanceOf(ClusterError);
    expect(await failure(list())).toMatchObject({ reason: "Aborted" });
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  test("passes on only complete lines of a watch, however the bytes arrive", async () => {
    handler = (_, response) => {
      const bytes = Buffer.from('{"type":"ä"}\n\n{"type":"B"}\n{"type":"half');
      response.writeHead(200);
      for (const byte of bytes) response.write(Buffer.of(byte));
      response.end();
    };
    expect(await watched()).toEqual([{ type: "ä" }, { type: "B" }]);
  });

  test("reports a watch that is refused, interrupted or not JSON", async () => {
    answers([410, { reason: "Expired" }]);
    expect(await failure(watched())).toMatchObject({ verb: "watch", status: 410, reason: "Expired" });
    expect(access.forgotten).toBe(0);
    answers([401, {}]);
    expect(await failure(watched())).toMatchObject({ status: 401 });
    expect(access.forgotten).toBe(1);
    handler = (_, response) => void response.writeHead(200).write("{}\n", () => response.destroy());
    expect(await failure(watched())).toBeInstanceOf(ClusterError);
    answers([200, "<html>\n"]);
    expect(await failure(watched())).toMatchObject({ reason: "BadAnswer" });
  });

  test("gives up a watch without a response at the deadline, but keeps a watch with a response", async () => {
    await connect(SHORT_MS);
    handler = () => undefined;
    expect(await failure(watched())).toMatchObject({ reason: "Timeout" });
    handler = (_, response) => {
      response.writeHead(200).write("{}\n");
      setTimeout(() => response.end('{"type":"late"}\n'), 2 * SHORT_MS);
    };
    expect(await watched()).toEqual([{}, { type: "late" }]);
  });

  test("aborts a call when the call's signal aborts", async () => {
    handler = () => undefined;
    const error = await failure(list(client.until(AbortSignal.timeout(50))));
    expect(error).toMatchObject({ verb: "list", reason: "Timeout" });
  });

  test("describes each call by verb and resource, as in RBAC", async () => {
    answers([500, {}]);
    const one = { ...PLACE, name: "bot" };
    const calls = [
      list(),
      client.custom.getNamespacedCustomObject(one),
      client.custom.deleteNamespacedCustomObject(one),
      client.custom.patchNamespacedCustomObjectStatus({ ...one, body: {} }),
      client.core.readNamespace({ name: "kube-system" }),
      client.core.createNamespacedEvent({
        namespace: "shop",
        body: { metadata: {}, involvedObject: {} },
      }),
    ];
    expect((await Promise.all(calls.map(failure))).map(({ message }) => message)).toEqual([
      "list platforms: 500 Unknown",
      "get platforms: 500 Unknown",
      "delete platforms: 500 Unknown",
      "patch platforms/status: 500 Unknown",
      "get namespaces: 500 Unknown",
      "create events: 500 Unknown",
    ]);
  });

  test("follows no redirect to another server", async () => {
    const others: IncomingMessage[] = [];
    const other = createServer((request, response) => {
      others.push(request);
      response.end("{}");
    });
    other.listen(0, "127.0.0.1");
    await once(other, "listening");
    const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
    answers([307, {}, { location }]);
    expect(await failure(create({ data: "secret" }))).toBeInstanceOf(ClusterError);
    expect(await failure(watched())).toBeInstanceOf(ClusterError);
    expect(others).toEqual([]);
    other.close();
  });

  test("keeps an event that contains a Unicode line separator", async () => {
    answers([200, '{"type":"ADDED","object":{"name":"a\u2028b\u2029c"}}\n']);
    expect(await watched()).toEqual([{ type: "ADDED", object: { name: "a\u2028b\u2029c" } }]);
  });

  test("ends a watch with the error that the watch's listener throws", async () => {
    handler = (_, response) => void response.writeHead(200).write('{"type":"A"}\n{"type":"B"}\n');
    const seen: unknown[] = [];
    const watching = client.watch({
      path: PATH,
      query: {},
      signal: AbortSignal.timeout(DEADLINE_MS),
      onEvent(event) {
        seen.push(event);
        throw new Error("not that one");
      },
    });
    await expect(watching).rejects.toThrow("not that one");
    expect(seen).toEqual([{ type: "A" }]);
  });

  test("ends a watch that sends an endless line", async () => {
    handler = (_, response) => {
      response.writeHead(200);
      for (let count = 0; count < 17; count += 1) response.write("x".repeat(1024 * 1024));
    };
    expect(await failure(watched())).toMatchObject({ reason: "BadAnswer" });
  });

  test("ends a running watch when the client certificate changed, and opens the next with the new one", async () => {
    const [own, former, next] = await Promise.all(
      ["127.0.0.1", "former", "next"].map((name) => selfSigned([name])),
    );
    const callers: string[] = [];
    const tlsServer = createTlsServer(
      { ...own, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        const caller = String((request.socket as TLSSocket).getPeerCertificate().subject?.CN);
        const isWatch = request.url?.includes("watch=true") === true;
        callers.push(`${caller} ${isWatch ? "watches" : "calls"}`);
        response.writeHead(200).write("{}\n");
        if (!isWatch || caller === "next") response.end();
      },
    );
    tlsServer.listen(0, "127.0.0.1");
    await once(tlsServer, "listening");
    try {
      let shown = former;
      access.server = `https://127.0.0.1:${(tlsServer.address() as AddressInfo).port}`;
      access.credentials = async () => ({ headers: {}, tls: { ...shown, rejectUnauthorized: false } });
      await connect();
      const arrived = Promise.withResolvers<void>();
      const signal = AbortSignal.timeout(DEADLINE_MS);
      const watching = failure(
        client.watch({ path: PATH, query: {}, signal, onEvent: () => arrived.resolve() }),
      );
      await arrived.promise;
      await list();
      shown = next;
      await list();
      expect(await watching).toMatchObject({ verb: "watch", reason: "UND_ERR_DESTROYED" });
      await watched();
      expect(callers).toEqual(["former watches", "former calls", "next calls", "next watches"]);
    } finally {
      tlsServer.closeAllConnections();
      tlsServer.close();
    }
  });

  test("overrides the library's silence limit, which is still 30 s", () => {
    expect(new Watch(new KubeConfig())).toHaveProperty("requestTimeoutMs", 30_000);
  });

  test("ends a watch when the watch's signal aborts", async () => {
    handler = (_, response) => void response.writeHead(200).write("{}\n");
    expect(await failure(watched(AbortSignal.timeout(50)))).toBeInstanceOf(ClusterError);
  });
});
