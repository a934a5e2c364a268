import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { Worker } from "node:worker_threads";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, test } from "vitest";
import { createWebhookSecret } from "../../src/events/secrets.ts";
import { createAddressPolicy, type Resolve } from "../../src/webhooks/callback_address.ts";
import { createSender, signedHeaders } from "../../src/webhooks/sign_and_send.ts";
import { selfSigned } from "../events/support/certificate.ts";

const delivery = { deliveryId: "7d0e1f3c-0000-5000-8000-000000000001", body: '{"event":"x","name":"Zoë"}' };

test("signedHeaders returns the headers of the specification, with a signature of timestamp and raw body", () => {
  const now = new Date("2026-03-01T12:00:00.999Z");
  const headers = signedHeaders(delivery, "whsec_c2VjcmV0", now, "service");
  const expected = createHmac("sha256", Buffer.from("whsec_c2VjcmV0"))
    .update(Buffer.from(`1772366400.${delivery.body}`))
    .digest("hex");
  expect(headers).toMatchObject({
    "Content-Type": "application/json",
    "X-Service-Signature": expected,
    "X-Service-Timestamp": "1772366400",
    "X-Service-Delivery-ID": delivery.deliveryId,
  });
  expect(expected).toMatch(/^[0-9a-f]{64}$/);
});

test("signedHeaders derives the header names from the configured service name", () => {
  const names = Object.keys(signedHeaders(delivery, "whsec_c2VjcmV0", new Date(), "acme"));
  expect(names.filter((name) => name.startsWith("X-"))).toEqual([
    "X-Acme-Signature",
    "X-Acme-Timestamp",
    "X-Acme-Delivery-ID",
  ]);
});

test("Standard Webhooks libraries verify the signature and refuse a changed body", () => {
  const secret = createWebhookSecret();
  const headers = signedHeaders(delivery, secret, new Date(), "service");
  const library = new Webhook(secret);
  expect(library.verify(delivery.body, headers)).toEqual(JSON.parse(delivery.body));
  expect(() => library.verify(`${delivery.body} `, headers)).toThrow();
  expect(() => new Webhook(createWebhookSecret()).verify(delivery.body, headers)).toThrow();
});

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Listens on loopback until the test ends. */
async function listen(server: Server | TcpServer): Promise<{ port: number; connections: () => number }> {
  let connections = 0;
  const sockets = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => {
    connections += 1;
    sockets.add(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const policy = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
const toLoopback: Resolve = async () => ["127.0.0.1"];
const limits = { dns: 200, connect: 400, deadline: 800, body: 100 };
const sender = (resolve: Resolve = toLoopback) => createSender({ policy, resolve, limits });
const request = (port: number, path = "/") => ({
  url: `http://hooks.example.test:${port}${path}`,
  headers: { "Content-Type": "application/json", "X-Test": "yes" },
  body: '{"name":"Zoë"}',
});

describe("the sender", () => {
  test("sends a POST with the given path, query, headers and body bytes, and the URL's name in the Host header", async () => {
    const seen: unknown[] = [];
    const { port } = await listen(
      createServer(async (incoming, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of incoming) chunks.push(chunk);
        const { method, url, headers } = incoming;
        seen.push({
          method,
          url,
          host: headers.host,
          test: headers["x-test"],
          length: headers["content-length"],
        });
        seen.push(Buffer.concat(chunks).toString());
        response.writeHead(202, { "Retry-After": "7" }).end("thanks");
      }),
    );
    const sent = await sender()(request(port, "/in/box?x=1"));
    const host = `hooks.example.test:${port}`;
    expect(seen).toEqual([
      { method: "POST", url: "/in/box?x=1", host, test: "yes", length: "15" },
      '{"name":"Zoë"}',
    ]);
    expect(sent).toEqual({ status: 202, retryAfter: "7", excerpt: Buffer.from("thanks") });
  });

  test.each([301, 302, 303, 307, 308])("does not follow a redirect with status %i", async (status) => {
    const target = await listen(createServer((_, response) => response.end()));
    const { port } = await listen(
      createServer((_, response) =>
        response.writeHead(status, { Location: `http://127.0.0.1:${target.port}/` }).end(),
      ),
    );
    expect(await sender()(request(port))).toMatchObject({ status });
    expect(target.connections()).toBe(0);
  });

  test("ignores a proxy in the environment", async () => {
    const proxy = await listen(createServer((_, response) => response.end()));
    const { port } = await listen(createServer((_, response) => response.writeHead(204).end()));
    process.env.HTTP_PROXY = process.env.http_proxy = `http://127.0.0.1:${proxy.port}`;
    try {
      expect(await sender()(request(port))).toMatchObject({ status: 204 });
    } finally {
      delete process.env.HTTP_PROXY;
      delete process.env.http_proxy;
    }
    expect(proxy.connections()).toBe(0);
  });
});

describe("the sender, for a response,", () => {
  test("keeps at most 16 KiB of the response", async () => {
    const { port } = await listen(createServer((_, response) => response.end("a".repeat(20_000))));
    const sent = await sender()(request(port));
    expect("status" in sent && sent.excerpt.length).toBe(16 * 1024);
  });

  test("reads about 64 KiB, however long the response is", async () => {
    let written = 0;
    const { port } = await listen(
      createServer((_, response) => {
        const chunk = Buffer.alloc(16 * 1024, 97);
        const more = () => {
          while (!response.destroyed && response.write(chunk)) written += chunk.length;
        };
        response.writeHead(200).on("drain", more);
        more();
      }),
    );
    expect(await sender()(request(port))).toMatchObject({ status: 200 });
    expect(written).toBeLessThan(32 * 1024 * 1024);
  });

  const OK = "HTTP/1.1 200 OK\r\n";
  /** Answers each request with `text`, and leaves the connection open if `isOpen`. */
  const answering = (text: string, isOpen = false) =>
    listen(
      createTcpServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => (isOpen ? socket.write(text) : socket.end(text)));
      }),
    );

  test.each([
    ["ends too early", `${OK}Content-Length: 9\r\n\r\nabc`],
    ["lacks its last chunk", `${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`],
    ["has a malformed chunk", `${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n`],
    ["stops after its head", `${OK}Content-Length: 9\r\n\r\n`, true],
    ["stops within its body", `${OK}Content-Length: 9\r\n\r\nabc`, true],
  ])("returns the status if the response %s", async (_, text, isOpen?: boolean) => {
    const { port } = await answering(text, isOpen);
    const excerpt = Buffer.from(text.includes("abc") ? "abc" : "");
    expect(await sender()(request(port))).toEqual({ status: 200, retryAfter: undefined, excerpt });
  });

  test.each([
    ["an interim response 100", `HTTP/1.1 100 Continue\r\n\r\n${OK}Content-Length: 0\r\n\r\n`],
    ["interim responses 102 and 103", `HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\n${OK}\r\n`],
    ["HTTP/1.0 and no length", "HTTP/1.0 200 OK\r\n\r\nabc"],
    ["headers of 40 KiB", `${OK}X: ${"a".repeat(40_000)}\r\nContent-Length: 0\r\n\r\n`],
    ["a repeated Retry-After", `${OK}Retry-After: 1\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n`],
    ["trailers", `${OK}Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: 1\r\n\r\n`],
    ["no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"],
  ])("accepts %s", async (_, text) => {
    const { port } = await answering(text);
    expect(await sender()(request(port))).toMatchObject({ status: 200 });
  });

  test("stops reading a slow body after its own limit, long before the deadline of the request", async () => {
    const { port } = await listen(
      createTcpServer((socket) => {
        socket.on("error", () => {});
        socket.write(`${OK}Content-Length: 999999\r\n\r\n`);
        const drip = setInterval(() => socket.writable && socket.write("a"), 20);
        closing.push(async () => clearInterval(drip));
      }),
    );
    const patient = createSender({ policy, resolve: toLoopback, limits: { ...limits, deadline: 600_000 } });
    expect(await patient(request(port))).toMatchObject({ status: 200 });
  });

  test("reports a timeout if no response comes", async () => {
    const { port } = await listen(createTcpServer((socket) => socket.on("error", () => {})));
    expect(await sender()(request(port))).toEqual({ fault: "timeout", detail: "TimeoutError" });
  });

  test.each([
    ["is not HTTP", "SSH-2.0-OpenSSH\r\n\r\n"],
    ["is empty", ""],
    ["has endless headers", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(100_000)}`],
    ["has only an interim head", "HTTP/1.1 102 Processing\r\n\r\n"],
  ])("reports a network fault if the response %s", async (_, text) => {
    const { port } = await answering(text);
    expect(await sender()(request(port))).toMatchObject({ fault: "network" });
  });
});

describe("the sender, without a response,", () => {
  test("reports a fault for a request that cannot be made", async () => {
    const sent = await sender()({ ...request(80), headers: { "X-Test": "a\nb" } });
    expect(sent).toEqual({ fault: "connect", detail: "ERR_INVALID_CHAR" });
  });

  test("reports a connect fault for a refused connection", async () => {
    const { port } = await listen(createTcpServer());
    await closing.pop()?.();
    expect(await sender()(request(port))).toEqual({ fault: "connect", detail: "ECONNREFUSED" });
  });

  test("reports a DNS fault for a name without addresses", async () => {
    const missing = Object.assign(new Error("queryA ENOTFOUND"), { code: "ENOTFOUND" });
    expect(await sender(() => Promise.reject(missing))(request(80))).toEqual({
      fault: "dns",
      detail: "ENOTFOUND",
    });
  });

  test("reports a DNS fault if the resolver does not answer in time", async () => {
    const silent: Resolve = (_, signal) =>
      once(signal, "abort").then(() => Promise.reject(new Error("late")));
    expect(await sender(silent)(request(80))).toMatchObject({ fault: "dns" });
  });
});

/** Listens on another address, and accepts nothing. The kernel ignores what its queue cannot hold. */
const SILENT = `
  const { parentPort, workerData: port } = require("node:worker_threads");
  require("node:net").createServer().listen({ port, host: "127.0.0.9", backlog: 1 }, () => {
    parentPort.postMessage("listens");
    // Immediately, because the event loop would accept connections.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
  });`;

describe("the sender, for the addresses of a name,", () => {
  const forbidden = ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "fe80::1"];

  test.each(forbidden)("refuses to connect if one address is %s", async (address) => {
    const { port, connections } = await listen(createServer((_, response) => response.end()));
    for (const addresses of [[address], ["127.0.0.1", address], [address, "127.0.0.1"]]) {
      const sent = await sender(async () => addresses)(request(port));
      expect(sent).toEqual({
        fault: "forbidden_address",
        detail: "the host has an address that is not allowed",
      });
    }
    expect(connections()).toBe(0);
  });

  test("resolves the name once for each request, and connects only to the checked addresses", async () => {
    const { port, connections } = await listen(createServer((_, response) => response.writeHead(204).end()));
    const answers = [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"]];
    let asked = 0;
    const rebinding = sender(async () => answers[asked++] ?? []);
    expect(await rebinding(request(port))).toMatchObject({ status: 204 });
    expect(await rebinding(request(port))).toMatchObject({ fault: "forbidden_address" });
    expect(await rebinding(request(port))).toMatchObject({ status: 204 });
    expect([asked, connections()]).toEqual([3, 2]);
  });

  test("tries the next address if the first refuses", async () => {
    const { port } = await listen(createServer((_, response) => response.writeHead(204).end()));
    expect(await sender(async () => ["127.0.0.9", "127.0.0.1"])(request(port))).toMatchObject({
      status: 204,
    });
  });

  test("tries the next address if the first is silent, within the time to connect", async () => {
    const { port } = await listen(createServer((_, response) => response.writeHead(204).end()));
    const silent = new Worker(SILENT, { eval: true, workerData: port });
    closing.push(async () => void (await silent.terminate()));
    await once(silent, "message");
    // More connections than the silent server's queue has room for. The others wait for each free place.
    const queue = Array.from({ length: 64 }, () => connect(port, "127.0.0.9").on("error", () => {}));
    closing.push(async () => queue.forEach((socket) => void socket.destroy()));
    await once(queue[0] as Socket, "connect");
    const resolve: Resolve = async () => ["127.0.0.9", "127.0.0.1"];
    const send = createSender({ policy, resolve, limits: { ...limits, connect: 1_000, deadline: 20_000 } });
    expect(await send(request(port))).toMatchObject({
      status: 204,
    });
  });

  test.each([
    ["http://hooks.example.test/", "the scheme must be https"],
    ["https://127.0.0.1/", "the host must be a name that is not this machine's own"],
    ["https://localhost/", "the host must be a name that is not this machine's own"],
    ["https://user:pw@hooks.example.test/", "it must not contain a user name or password"],
  ])("blocks %s without querying a resolver in production", async (url, detail) => {
    let asked = 0;
    const production = createAddressPolicy({ development: false, allowedCidrs: ["127.0.0.0/8"] });
    const resolve: Resolve = async () => {
      asked += 1;
      return ["8.8.8.8"];
    };
    const sent = await createSender({ policy: production, resolve, limits })({ ...request(80), url });
    expect(sent).toEqual({ fault: "forbidden_address", detail });
    expect(asked).toBe(0);
  });
});

describe("the sender, with TLS,", () => {
  async function listenTls(names: string[]) {
    const { key, cert } = await selfSigned(names);
    const { port } = await listen(
      createTlsServer({ key, cert }, (_, response) => response.writeHead(204).end()),
    );
    return { cert, url: `https://hooks.example.test:${port}/` };
  }

  test("verifies the certificate against the name although it connects to a fixed address", async () => {
    const { cert, url } = await listenTls(["hooks.example.test"]);
    const send = createSender({ policy, resolve: toLoopback, limits, ca: [cert] });
    expect(await send({ ...request(0), url })).toMatchObject({ status: 204 });
  });

  test("refuses a certificate for a different name", async () => {
    const { cert, url } = await listenTls(["other.example.test"]);
    const send = createSender({ policy, resolve: toLoopback, limits, ca: [cert] });
    expect(await send({ ...request(0), url })).toEqual({
      fault: "connect",
      detail: "ERR_TLS_CERT_ALTNAME_INVALID",
    });
  });

  test("refuses a certificate from an unknown authority", async () => {
    const { url } = await listenTls(["hooks.example.test"]);
    expect(await sender()({ ...request(0), url })).toMatchObject({ fault: "connect" });
  });
});
