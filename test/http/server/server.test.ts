import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import {
  MAX_HEADER_BYTES,
  type RunningServer,
  type ServerLimits,
  startServer,
} from "../../../src/http/server/server.ts";
import { startApi } from "../../support/api.ts";
import { until } from "../../support/process.ts";
import { connectRaw } from "../support/raw_client.ts";
import { echoRoute } from "../support/sample_routes.ts";

const running: RunningServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop(0);
});

async function start(
  listener: Parameters<typeof startServer>[0],
  limits: Partial<ServerLimits> = {},
): Promise<RunningServer> {
  const server = await startServer(listener, { host: "127.0.0.1", port: 0, limits });
  running.push(server);
  return server;
}

/** Starts a server whose first call waits until the test lets it finish. */
async function startHolding() {
  let reach = (_: () => void): void => {};
  const reached = new Promise<() => void>((resolve) => {
    reach = resolve;
  });
  const server = await start((_, response) => reach(() => response.end("done")));
  return { server, reached };
}

async function talk(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk.toString();
  });
  socket.on("error", () => {});
  socket.write(text);
  await once(socket, "close");
  return answer;
}

const headersOf = (bytes: number) =>
  `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${"x".repeat(bytes)}\r\n\r\n`;

describe("the server", () => {
  test("accepts headers with a large proof, and refuses larger headers with the usual form of error", async () => {
    const { port } = await start((_, response) => response.end("ok"));
    expect(await talk(port, headersOf(MAX_HEADER_BYTES - 200))).toMatch(/^HTTP\/1\.1 200 OK/);
    const refused = await talk(port, headersOf(MAX_HEADER_BYTES + 1));
    expect(refused).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(refused).toMatch(/\r\nx-request-id: [0-9a-f-]{36}\r\n/);
    expect(refused.split("\r\n\r\n")[1]).toBe(
      '{"error":{"code":"invalid_request","message":"headers: larger than 65536 bytes","status":400}}',
    );
  });

  test.each([
    ["text that is not HTTP", "hello\r\n\r\n"],
    ["two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na"],
    [
      "a length and chunks",
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["a header without a name", "GET / HTTP/1.1\r\n: x\r\n\r\n"],
    [
      "two codings of which the last is not chunked",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    ],
    ["HTTP/0.9", "GET /\r\n\r\n"],
    ["HTTP/0.9 with its version", "GET / HTTP/0.9\r\n\r\n"],
    ["HTTP/2 without its preface", "GET / HTTP/2.0\r\nHost: x\r\n\r\n"],
    ["a request to a proxy", "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n"],
  ])("answers %s as a malformed call, and closes the connection", async (_, text) => {
    const { port } = await start((_request, response) => response.end("ok"));
    const answer = await talk(port, text);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      error: { code: "invalid_request" },
    });
  });

  test.each(["gzip", "gzip, chunked", "identity", "x-unknown"])(
    "answers 501 to the transfer coding %j before the call has any effect, and closes the connection",
    async (coding) => {
      let called = 0;
      const { port } = await start((_request, response) => {
        called += 1;
        response.end("ok");
      });
      const head = `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
      const answer = await talk(port, `${head}0\r\n\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 501 Not Implemented\r\n/);
      expect(answer).toContain('"code":"not_implemented"');
      expect(called).toBe(0);
    },
  );

  test("closes the connection after a call in HTTP/1.0 with a transfer coding, and handles nothing that follows it", async () => {
    const urls: (string | undefined)[] = [];
    const { port } = await start(({ url }, response) => {
      urls.push(url);
      // Without a length, Node would close the connection in any case.
      setTimeout(() => response.writeHead(200, { "content-length": "2" }).end("ok"), 20);
    });
    const head = "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: Chunked\r\n\r\n";
    const next = "GET /next HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    const answer = await talk(port, `${head}0\r\n\r\n${next}`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n/);
    expect([answer.match(/HTTP\/1\.1 /g), urls]).toEqual([["HTTP/1.1 "], ["/"]]);
  });

  test("closes the connection without a response when bytes that are not HTTP follow a pending call", async () => {
    const { server, reached } = await startHolding();
    const answer = talk(server.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n");
    (await reached)();
    expect(await answer).not.toContain("invalid_request");
  });

  test.each([
    ["no Host in HTTP/1.1", "GET / HTTP/1.1\r\n\r\n"],
    ["an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"],
    ["a Host with only a port", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"],
    ["two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"],
    ["two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n"],
    ["a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"],
    ["a Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"],
    ["a list of Hosts", "GET / HTTP/1.1\r\nHost: a, b c\r\n\r\n"],
    ["a URL without a host", "GET https:///x HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a URL with only a port", "GET http://:80/x HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a URL with a user", "GET http://u:p@a/x HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a URL with a backslash", "GET http://a\\b/x HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a URL of another scheme", "GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n"],
  ])("refuses %s before the call has any effect, and closes the connection", async (_, text) => {
    let called = 0;
    const { port } = await start((_request, response) => {
      called += 1;
      response.end("ok");
    });
    const answer = await talk(port, text);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      error: { code: "invalid_request" },
    });
    expect(called).toBe(0);
  });

  test("returns a refused request's own X-Request-Id if that id can be returned", async () => {
    const { port } = await start((_, response) => response.end("ok"));
    const refusedUnder = async (id: string) =>
      /\r\nx-request-id: ([^\r]*)\r\n/.exec(
        await talk(port, `GET / HTTP/1.1\r\nHost: a/b\r\nX-Request-Id: ${id}\r\n\r\n`),
      )?.[1];
    expect(await refusedUnder("mine-1")).toBe("mine-1");
    expect(await refusedUnder("x".repeat(1024))).toBe("x".repeat(1024));
    expect(await refusedUnder("x".repeat(1025))).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each([
    ["a path", "GET /x?y HTTP/1.1\r\nHost: a.example:8080", "/x?y"],
    ["a path, with an address as the host", "GET /x HTTP/1.1\r\nHost: [::1]:80", "/x"],
    ["a path, without a host in HTTP/1.0", "GET /x HTTP/1.0", "/x"],
    [
      "a URL, using only its path",
      "GET http://a.example:80/x?y=http://b/ HTTP/1.1\r\nHost: b",
      "/x?y=http://b/",
    ],
    ["a URL without a path", "GET HTTPS://a HTTP/1.1\r\nHost: a", "/"],
    ["a URL with only a query", "GET http://a?b HTTP/1.1\r\nHost: a", "/?b"],
    ["a path that looks like a host", "GET //a/x HTTP/1.1\r\nHost: a", "//a/x"],
  ])("accepts %s", async (_, head, target) => {
    const { port } = await start((request, response) => response.end(request.url));
    const answer = await talk(port, `${head}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(answer.split("\r\n\r\n")[1]).toContain(target);
  });

  test("closes a connection on which a response was aborted, and sends no other response on it", async () => {
    const { port } = await start((_, response) => {
      response.writeHead(200, { "content-length": 9 });
      response.write("half");
    });
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString();
      if (answer.endsWith("half")) socket.write("no HTTP\r\n\r\n");
    });
    socket.on("error", () => {});
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(socket, "close");
    expect(answer).toMatch(/\r\n\r\nhalf$/);
  });

  test("fails to start on an address that is in use", async () => {
    const { port } = await start((_, response) => response.end("ok"));
    await expect(startServer(() => {}, { host: "127.0.0.1", port })).rejects.toMatchObject({
      code: "EADDRINUSE",
    });
  });
});

test("a server closes idle connections while more than nine tenths of all connections are open", async () => {
  const server = await start((_, response) => response.end("ok"), { connections: 10 });
  const send = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const idle: Awaited<ReturnType<typeof connectRaw>>[] = [];
  for (let n = 0; n < 8; n += 1) idle.push(await connectRaw(server.port, { send }));
  await Promise.all(idle.map((client) => client.until(/ok$/)));
  const busy = await connectRaw(server.port, { send: send.slice(0, -2) });
  const last = await connectRaw(server.port, { send });
  await until("the idle ones are closed", () => idle.every(({ socket }) => socket.destroyed));
  expect(await last.until(/ok$/)).toMatch(/ 200 /);
  busy.socket.write("\r\n");
  expect(await busy.until(/ok$/)).toMatch(/ 200 /);
});

test("a draining server answers every call, and closes its connection after the answer", async () => {
  const server = await start((_, response) => response.end("ok"));
  const send = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const client = await connectRaw(server.port, { send });
  await client.until(/ok$/);
  server.drain();
  client.socket.write(send);
  const answers = await client.until(/ok.*ok$/s);
  expect(answers.match(/(?<=^connection: ).*(?=\r)/gim)).toEqual(["keep-alive", "close"]);
});

describe("stopping the server", () => {
  test("finishes a pending call, accepts no new connection, and sends Connection: close", async () => {
    const { server, reached } = await startHolding();
    const agent = new Agent({ keepAlive: true });
    const sent = request({ port: server.port, host: "127.0.0.1", agent }).end();
    const finish = await reached;
    let stopped = false;
    const stop = server.stop(10_000).then(() => {
      stopped = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(stopped).toBe(false);
    await expect(fetch(`http://127.0.0.1:${server.port}`)).rejects.toThrow();
    finish();
    const [answer] = await once(sent, "response");
    expect(answer.statusCode).toBe(200);
    expect(answer.headers.connection).toBe("close");
    answer.resume();
    await stop;
    agent.destroy();
  });

  test("closes idle connections immediately", async () => {
    const server = await start((_, response) => response.end("ok"));
    const socket: Socket = connect(server.port, "127.0.0.1");
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(socket, "data");
    const closed = once(socket, "close");
    const began = performance.now();
    await server.stop(10_000);
    await closed;
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test("aborts calls that do not finish in time", async () => {
    const server = await start(() => {});
    const hanging = fetch(`http://127.0.0.1:${server.port}`);
    const gone = expect(hanging).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 100));
    await server.stop(50);
    await gone;
  });

  test("can be requested twice", async () => {
    const server = await start((_, response) => response.end("ok"));
    await Promise.all([server.stop(), server.stop()]);
  });
});

test("a call that hangs gets a response at the deadline, and is counted", async () => {
  const api = await startApi({
    deadlineMs: 150,
    routes: [echoRoute({ id: "hangs", handle: () => new Promise(() => {}) })],
  });
  const answer = await api.client().post("/v1/service/echo");
  expect(answer).toMatchObject({ status: 503, body: { error: { code: "unavailable" } } });
  expect(JSON.stringify(answer.body)).toContain("not known");
  expect(await api.metrics.registry.metrics()).toContain(
    'deputize_http_request_seconds_count{route="hangs",status="503"} 1',
  );
  expect(await api.metrics.registry.metrics()).toContain('deputize_http_errors_total{code="unavailable"} 1');
  await api.stop();
});
