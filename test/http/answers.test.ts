import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startApi } from "../support/api.ts";
import { FAIL, sampleApi } from "./support/sample_api.ts";

const world = sampleApi();
const { post } = world;

async function raw(lines: string): Promise<string> {
  const socket = connect(world.api.port, "127.0.0.1");
  const head = `POST /v1/service/echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n`;
  socket.end(Buffer.from(head, "latin1"));
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

describe("every response", () => {
  test.each([
    ["a success", "POST", "/v1/service/echo"],
    ["a page", "GET", "/dev/mailbox"],
    ["an unknown path", "GET", "/v1/nothing"],
    ["a method that is not allowed", "GET", "/v1/service/echo"],
    ["a route with a parameter", "GET", "/v1/service/things/7"],
  ])("has headers that prevent type sniffing, framing and caching: %s", async (_, method, path) => {
    const { headers } = await world.api.client().call(method, path, { csrf: false });
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("content-security-policy")).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("x-powered-by")).toBeNull();
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("tells browsers to require https if the service uses https, and otherwise does not", async () => {
    const secure = await startApi({ shares: world.api, config: { BASE_URL: "https://api.example.com" } });
    expect((await secure.client().get("/v1/none")).headers.get("strict-transport-security")).toBe(
      "max-age=31536000",
    );
    expect((await world.api.client().get("/v1/none")).headers.get("strict-transport-security")).toBeNull();
    await secure.stop();
  });

  test.each([
    "trace-1",
    "A".repeat(1024),
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "a b",
    "a,b",
    '<script>"x"</script>',
    '{"id": "7"}',
    "caf\u00e9",
    "tab\there",
  ])("contains the caller's request id %j unchanged", async (id) => {
    for (const [method, path] of [
      ["POST", "/v1/service/echo"],
      ["POST", "/v1/none"],
      ["POST", FAIL],
      ["POST", "/v1/auth/refresh"],
      ["GET", "/v1/service/echo"],
      ["GET", "/dev/mailbox"],
    ] as const) {
      const answer = await world.api.client().call(method, path, { headers: { "x-request-id": id } });
      expect([path, answer.headers.get("x-request-id")]).toEqual([path, id]);
    }
  });

  test("contains the caller's request id with the same UTF-8 bytes", async () => {
    const id = Buffer.from("größer 猫").toString("latin1");
    expect((await post("/v1/service/echo", { "x-request-id": id })).headers.get("x-request-id")).toBe(id);
  });

  test("contains the request ids of two request headers as one list", async () => {
    expect(await raw("X-Request-Id: one\r\nX-Request-Id: two\r\n")).toMatch(
      /^HTTP\/1\.1 200 [\s\S]*\r\nx-request-id: one, two\r\n/,
    );
  });

  test("gets a new request id if the caller's id is empty", async () => {
    expect(await raw("X-Request-Id: \r\n")).toMatch(
      /^HTTP\/1\.1 200 [\s\S]*\r\nx-request-id: [0-9a-f-]{36}\r\n/,
    );
  });

  test.each([
    ["longer than 1024 bytes", `X-Request-Id: ${"A".repeat(1025)}\r\n`],
    ["longer than 1024 bytes in two headers", `X-Request-Id: ${"A".repeat(1022)}\r\nX-Request-Id: B\r\n`],
    ["with a control character", "X-Request-Id: a\u0001b\r\n"],
    ["with a delete character", "X-Request-Id: a\u007fb\r\n"],
    ["with a bare line feed", "X-Request-Id: a\nb\r\n"],
    ["with a bare carriage return", "X-Request-Id: a\rSet-Cookie: x=1\r\n"],
    ["with U+0000", "X-Request-Id: a\u0000b\r\n"],
  ])("reports an error for a request id %s instead of replacing the id", async (_, header) => {
    const answer = await raw(header);
    expect(answer).toMatch(/^HTTP\/1\.1 400 [\s\S]*\r\nx-request-id: [0-9a-f-]{36}\r\n/);
    expect(answer).toContain('"code":"invalid_request"');
    expect(answer).not.toMatch(/set-cookie|AAAA/i);
  });

  test("appears in the log under a shortened request id without control characters", async () => {
    world.fail = () => Promise.reject(new Error("broken"));
    const logged = async (id: string) => {
      await post(FAIL, { "x-request-id": id });
      return JSON.parse(world.api.lines.at(-1) ?? "").request_id;
    };
    expect(await logged("a\tb\u0085c \u00e9")).toBe("a?b?c ?");
    expect(await logged("A".repeat(1024))).toBe("A".repeat(128));
  });

  test("gets a new request id if the caller sends none", async () => {
    const ids = await Promise.all(
      [1, 2, 3].map(async () => (await post("/v1/service/echo")).headers.get("x-request-id")),
    );
    expect(new Set(ids).size).toBe(3);
  });
});

describe("routing", () => {
  test("prefers a route with a fixed path over a route with a parameter, in any order of declaration", async () => {
    expect((await world.api.client().get("/v1/service/things/newest")).body).not.toHaveProperty(
      "params.thing_id",
    );
    expect((await world.api.client().get("/v1/service/things/other")).body).toMatchObject({
      params: { thing_id: "other" },
    });
  });

  test("prefers the route with fewer parameters, in any order of declaration", async () => {
    const part = await world.api.client().get("/v1/service/things/7/parts/newest");
    expect(part.body).toMatchObject({ params: { thing_id: "7" } });
    expect(part.body).not.toHaveProperty("params.part_id");
  });

  test("decodes path parameters, and returns not_found for a parameter that cannot be stored", async () => {
    expect((await world.api.client().get("/v1/service/things/a%2Fb%20c")).body).toMatchObject({
      params: { thing_id: "a/b c" },
    });
    expect((await world.api.client().get("/v1/service/things/a%00b")).status).toBe(404);
  });

  test("answers HEAD like GET, without the body", async () => {
    const answer = await world.api.client().call("HEAD", "/v1/service/things/newest", { csrf: false });
    expect(answer.status).toBe(200);
    expect(Number(answer.headers.get("content-length"))).toBeGreaterThan(2);
    expect(answer.text).toBe("");
  });

  test("accepts a request target with the host, as proxies send it", async () => {
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(world.api.port, "127.0.0.1", () =>
        socket.write("POST http://any.example/v1/service/echo HTTP/1.1\r\nHost: any.example\r\n\r\n"),
      );
      socket.once("data", (chunk) => {
        socket.destroy();
        resolve(chunk.toString());
      });
      socket.once("error", reject);
    });
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("answers every random path, and never fails with an internal error", async () => {
    const segment = fc.oneof(
      fc.constantFrom(
        "v1",
        "service",
        "things",
        "echo",
        "..",
        ".",
        "%00",
        "%zz",
        "%ff",
        "%2e%2e",
        "",
        "__proto__",
        ":thing_id",
        "{thing_id}",
      ),
      fc.webSegment(),
    );
    const target = fc.tuple(
      fc.array(segment, { maxLength: 6 }),
      fc.option(fc.webQueryParameters(), { nil: "" }),
    );
    await fc.assert(
      fc.asyncProperty(
        target,
        fc.constantFrom("GET", "POST", "PUT", "DELETE"),
        async ([segments, query], method) => {
          const answer = await sendAsWritten(method, `/${segments.join("/")}?${query}`);
          expect(answer.statusCode).toBeLessThan(500);
          expect(answer.headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
        },
      ),
      { numRuns: 300 },
    );
  });
});

function sendAsWritten(method: string, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port: world.api.port, method, path }, (answer) => {
      answer.resume();
      answer.once("end", () => resolve(answer));
    });
    sent.once("error", reject).end();
  });
}
