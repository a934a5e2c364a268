import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { createPeerClient } from "../../src/http/client_address.ts";
import { type RunningServer, type ServerLimits, startServer } from "../../src/http/server/server.ts";
import { type ApiOptions, startApi } from "../support/api.ts";
import { connectRaw, type RawClient } from "./support/raw_client.ts";
import { echoRoute } from "./support/sample_routes.ts";

const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HUGE = 5_000_000;
const LARGE = 200_000;
const OTHER = "127.0.0.2";
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

let served = 0;

async function serve(limits: Partial<ServerLimits>): Promise<RunningServer> {
  served = 0;
  const server = await startServer(
    (_, response) => {
      served += 1;
      response.end("ok");
    },
    { host: "127.0.0.1", port: 0, limits },
  );
  ends.push(() => server.stop(0));
  return server;
}

async function raw(port: number, options?: Parameters<typeof connectRaw>[1]): Promise<RawClient> {
  const client = await connectRaw(port, options);
  ends.push(async () => client.socket.destroy());
  return client;
}

async function hold(port: number, count: number, options?: Parameters<typeof connectRaw>[1]) {
  const held: RawClient[] = [];
  for (let n = 0; n < count; n += 1) held.push(await raw(port, options));
  return held;
}

describe("one client address that opens connections in a loop", () => {
  test("gets only its maximum number of connections, and then 429", async () => {
    const { port } = await serve({ perClient: 3 });
    const held = await hold(port, 3, { send: GET });
    for (const each of held) await each.until(/200 OK/);
    const answer = await (await raw(port)).closed;
    expect(answer).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n/);
    expect(answer).toMatch(/\r\nretry-after: 1\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({ error: { code: "rate_limited" } });
  });

  test("has no request processed on a refused connection", async () => {
    const { port } = await serve({ perClient: 0 });
    for (let n = 0; n < 20; n += 1) {
      expect(await (await raw(port, { send: GET })).closed).toMatch(/^(HTTP\/1\.1 429 |$)/);
    }
    expect(served).toBe(0);
  });

  test("may connect again as soon as it has closed a connection", async () => {
    const { port } = await serve({ perClient: 2 });
    const [first] = await hold(port, 2, { send: GET });
    first?.socket.destroy();
    await first?.closed;
    let answer = "";
    while (!answer.includes("200 OK")) {
      const again = await raw(port, { send: GET });
      answer = await again.until(/HTTP\/1\.1 \d+/);
      if (!answer.includes("200 OK")) again.socket.destroy();
    }
    expect(served).toBe(3);
    expect(await (await raw(port, { send: GET })).closed).toMatch(/^(HTTP\/1\.1 429 |$)/);
    expect(served).toBe(3);
  });

  test("may connect again from any address of its IPv6 /64 as soon as it has closed a connection", async () => {
    let asked = 0;
    const { port } = await serve({ perClient: 1, clientOf: () => `2001:db8::${++asked % 9}` });
    const first = await raw(port, { send: GET });
    await first.until(/200 OK/);
    first.socket.destroy();
    await vi.waitFor(async () => (await raw(port, { send: GET })).until(/200 OK/), 5_000);
  });

  test("gets no additional connections by using a whole IPv6 /64", async () => {
    const addresses = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:3"];
    const { port } = await serve({ perClient: 2, clientOf: () => addresses.shift() });
    for (const each of await hold(port, 2, { send: GET })) await each.until(/200 OK/);
    await (await raw(port, { send: GET })).closed;
    expect([addresses, served]).toEqual([[], 2]);
  });

  test("does not affect other addresses", async () => {
    const { port } = await serve({ perClient: 2 });
    await hold(port, 5);
    expect(await (await raw(port, { from: OTHER, send: GET })).until(/200 OK/)).toContain("ok");
  });

  test("has no limit if it is a trusted proxy, whose connections carry many clients", async () => {
    const { port } = await serve({ perClient: 2, clientOf: createPeerClient(["127.0.0.1"]) });
    for (const each of await hold(port, 5, { send: GET })) await each.until(/200 OK/);
    await hold(port, 2, { from: OTHER, send: GET });
    expect(await (await raw(port, { from: OTHER })).closed).toMatch(/^HTTP\/1\.1 429 /);
  });

  test("counts as one client in every spelling of IPv4, and with a whole IPv6 /64", () => {
    const clientOf = createPeerClient(["10.0.0.0/8"]);
    expect(clientOf("::ffff:192.0.2.1")).toBe("192.0.2.1");
    expect(clientOf("::ffff:10.1.2.3")).toBeUndefined();
    expect(clientOf(undefined)).toBe("unknown");
  });

  test("cannot exceed the server's total from many addresses", async () => {
    const { port } = await serve({ connections: 3 });
    await hold(port, 3, { send: GET.slice(0, -1) });
    expect(await (await raw(port, { from: OTHER, send: GET })).closed).toBe("");
    expect(served).toBe(0);
  });
});

describe("a slow or idle connection", () => {
  const quick = { headersMs: 200, requestMs: 400, checkMs: 50 };

  test.each([
    ["sends nothing", ""],
    ["begins its headers", "POST / HTTP/1.1\r\nHost: x\r\nX-Slow:"],
  ])("closes if it %s", async (_, send) => {
    const { port } = await serve(quick);
    await (await raw(port, { send })).closed;
    expect(served).toBe(0);
  });

  test("closes if a request body keeps arriving one byte at a time", async () => {
    const server = await startServer(
      (request, response) => request.resume().on("end", () => response.end()),
      {
        host: "127.0.0.1",
        port: 0,
        limits: quick,
      },
    );
    ends.push(() => server.stop(0));
    const client = await raw(server.port, { send: begun("/", LARGE) });
    drip(client);
    expect(await client.closed).toMatch(/^HTTP\/1\.1 400 .*"the request did not arrive in time"/s);
  });

  test("closes only after a response, so that no call waits long for a request body", async () => {
    const api = await sampleApi({ bodies: { perClient: 9, bodyMs: 200 } });
    const client = await raw(api.port, { send: begun("/v1/service/raw", LARGE) });
    drip(client);
    const answer = await client.until(/\}\}/);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain("body: did not arrive within 0.2 seconds");
  });

  test("closes if the client does not read the response", async () => {
    const all = 64 << 20;
    let cutOff: Promise<unknown> = Promise.resolve();
    const server = await startServer(
      (_, response) => {
        cutOff = once(response, "close");
        response.end(Buffer.alloc(all));
      },
      { host: "127.0.0.1", port: 0, limits: { silenceMs: 300 } },
    );
    ends.push(() => server.stop(0));
    const client = await raw(server.port, { send: GET });
    await client.until(/200 OK/);
    client.socket.pause();
    const isCutOff = cutOff.then(() => true);
    expect(await Promise.race([isCutOff, sleep(5_000, false)])).toBe(true);
    client.socket.resume();
    expect((await client.closed).length).toBeLessThan(all);
  });

  function drip({ socket }: RawClient): void {
    const timer = setInterval(() => socket.write("x"), 20);
    ends.push(async () => clearInterval(timer));
  }
});

function begun(path: string, bytes = 9, more = ""): string {
  return `POST ${path} HTTP/1.1\r\nHost: x\r\n${more}Content-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n{`;
}

async function sampleApi(options: ApiOptions) {
  const api = await startApi({
    ...options,
    routes: [echoRoute({ id: "raw", path: "/v1/service/raw", bodyForm: "raw", body: z.unknown() })],
  });
  ends.push(() => api.stop());
  return api;
}

describe("one client address that sends bodies without an end", () => {
  const slow = { send: begun("/v1/service/raw") };

  test("may send only its maximum number of bodies, while calls without a body are served", async () => {
    const api = await sampleApi({ bodies: { perClient: 3 } });
    const { port } = api;
    const held = await hold(port, 3, slow);
    const refused = await untilRefused(port, () => slow);
    expect(refused).toMatch(/\r\nretry-after: 1\r\n/);
    expect((await api.client().get("/v1/auth/session")).status).toBe(401);
    held[0]?.socket.write("}       ");
    expect(await held[0]?.until(/\}/)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await (await raw(port, { send: `${slow.send}}       ` })).until(/\}/)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("does not affect other clients, even behind one proxy", async () => {
    const api = await sampleApi({
      bodies: { perClient: 2 },
      config: { TRUSTED_PROXIES: ["127.0.0.1"] },
    });
    const { port } = api;
    const from = (client: string) => ({
      send: begun("/v1/service/raw", 9, `X-Forwarded-For: ${client}\r\n`),
    });
    await hold(port, 2, from("192.0.2.1"));
    await untilRefused(port, () => from("192.0.2.1"));
    const other = await raw(port, { send: `${from("192.0.2.2").send}}       ` });
    expect(await other.until(/\}/)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("may not send more bodies by using a whole IPv6 /64", async () => {
    const api = await sampleApi({ bodies: { perClient: 2 }, config: { TRUSTED_PROXIES: ["127.0.0.1"] } });
    let last = 0;
    const next = () => {
      last += 1;
      return { send: begun("/v1/service/raw", 9, `X-Forwarded-For: 2001:db8::${last}\r\n`) };
    };
    expect(await untilRefused(api.port, next)).toContain("rate_limited");
  });

  /** The server refuses a call only after it has read the headers of the earlier calls. */
  async function untilRefused(port: number, next: () => { send: string }): Promise<string> {
    for (let n = 0; n < 10; n += 1) {
      const client = await raw(port, next());
      const answer = await Promise.race([
        client.until(/\}\}/),
        new Promise<string>((resolve) => setTimeout(resolve, 500, "")),
      ]);
      if (answer.includes(" 429 ")) return answer;
    }
    throw new Error("none was refused");
  }
});

describe("bodies that continue after the response", () => {
  const late = (host = "x") => ({
    send: `POST /v1/service/none HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${HUGE}\r\n\r\n`,
  });

  test.each([
    ["for unknown paths", "x", 404],
    ["with an invalid host", "a/b", 400],
  ])(
    "arrive up to the client's limit, and then the client's connection is closed (%s)",
    async (_, host, status) => {
      const api = await sampleApi({});
      const { port } = api;
      const first = await hold(port, 16, late(host));
      for (const each of first) await each.until(/\}\}/);
      const over = await (await raw(port, late(host))).closed;
      expect(over).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(over).toMatch(/\r\nconnection: close\r\n/i);
      const others = await raw(port, { ...late(host), from: OTHER });
      await others.until(/\}\}/);
      expect([...first, others].filter(({ socket }) => socket.destroyed)).toEqual([]);
      first[0]?.socket.write(Buffer.alloc(HUGE));
      if (status === 400) {
        await first[0]?.closed;
      } else {
        first[0]?.socket.write(late(host).send);
      }
      await (await raw(port, late(host))).until(/\}\}/);
    },
  );

  test("count together for an IPv6 /64", async () => {
    const { port } = await serve({ clientOf: (peer) => `2001:db8::${peer?.at(-1)}` });
    const held: RawClient[] = [];
    for (const n of [1, 2, 3, 4]) {
      held.push(...(await hold(port, 4, { ...late("a/b"), from: `127.0.0.${n}` })));
    }
    for (const each of held) await each.until(/\}\}/);
    const over = await raw(port, { ...late("a/b"), from: "127.0.0.5" });
    expect(await over.closed).toMatch(/^HTTP\/1\.1 400 /);
    expect(held.filter(({ socket }) => socket.destroyed)).toEqual([]);
  });

  test("arrive from at most sixty-four requests of many clients at a time, and the next connection is closed", async () => {
    const { port } = await serve({});
    const held: RawClient[] = [];
    for (const n of [1, 2, 3, 4]) {
      held.push(...(await hold(port, 16, { ...late("a/b"), from: `127.0.0.${n}` })));
    }
    for (const each of held) await each.until(/\}\}/);
    const fifth = { ...late("a/b"), from: "127.0.0.5" };
    expect(await (await raw(port, fifth)).closed).toMatch(/^HTTP\/1\.1 400 /);
    held[0]?.socket.write(Buffer.alloc(HUGE));
    await held[0]?.closed;
    const next = await raw(port, fifth);
    await next.until(/\}\}/);
    expect([...held.slice(1), next].filter(({ socket }) => socket.destroyed)).toEqual([]);
  });

  test("arrive completely if the request's host is invalid, so that the client can read the response", async () => {
    const { port } = await serve({});
    for (let round = 0; round < 10; round += 1) {
      const client = await raw(port);
      client.socket.pause();
      client.socket.write(late("a/b").send);
      await new Promise((resolve) => client.socket.write(Buffer.alloc(HUGE), resolve));
      client.socket.resume();
      expect(await client.closed).toMatch(/^HTTP\/1\.1 400 .*"host: not a valid host"/s);
    }
  });
});
