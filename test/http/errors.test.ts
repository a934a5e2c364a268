import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { errorCodes } from "../../src/errors.ts";
import { idText } from "../../src/schemas.ts";
import { VaultRefused, VaultUnavailable } from "../../src/vault/client.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { echoRoute, failingRoute, refusal } from "./support/sample_routes.ts";

const FAIL = "/v1/service/fail";
let api: TestApi;
let fail: () => Promise<never>;
beforeAll(async () => {
  fail = refusal("agent_disabled");
  api = await startApi({
    routes: () => [
      failingRoute(() => fail()),
      echoRoute(),
      echoRoute({
        id: "thing",
        method: "GET",
        path: "/v1/service/things/{thing_id}",
        params: z.object({ thing_id: idText }),
      }),
      echoRoute({ id: "newest_part", method: "GET", path: "/v1/service/things/{thing_id}/parts/newest" }),
      echoRoute({ id: "part", method: "GET", path: "/v1/service/things/{thing_id}/parts/{part_id}" }),
      echoRoute({ id: "newest_thing", method: "GET", path: "/v1/service/things/newest" }),
      echoRoute({
        id: "put_thing",
        method: "PUT",
        path: "/v1/service/things/{thing_id}",
        errors: ["internal"],
      }),
      echoRoute({ id: "lying", path: "/v1/service/lying", handle: async () => ({ body: 7 }) }),
    ],
  });
});
afterAll(() => api.stop());

const post = (path: string, headers: Record<string, string> = {}) =>
  api.client().post(path, undefined, { headers });

describe("an error", () => {
  test("is its code, message and status and nothing else, with the headers it brings", async () => {
    fail = refusal("agent_disabled", "It sleeps", { "retry-after": "7" });
    const answer = await post(FAIL);
    expect(answer.text).toBe('{"error":{"code":"agent_disabled","message":"It sleeps","status":409}}');
    expect(answer.status).toBe(409);
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(answer.headers.get("retry-after")).toBe("7");
  });

  test.each([
    ["an unknown path", "GET", "/v1/service/nothing"],
    ["the root", "GET", "/"],
    ["another version", "POST", "/v2/service/echo"],
    ["a path with a slash too many", "POST", "/v1/service/echo/"],
    ["a path in another case", "POST", "/v1/service/ECHO"],
    ["a path of another word", "POST", "/v1/ratify/echo"],
    ["an encoded path", "POST", "/v1/service/%65cho"],
    ["a route's own braces", "GET", "/v1/service/things/"],
  ])("for %s is not_found", async (_, method, path) => {
    const answer = await api.client().call(method, path);
    expect(answer).toMatchObject({ status: 404, body: { error: { code: "not_found", status: 404 } } });
  });

  test.each([
    ["GET", "/v1/service/echo", "POST"],
    ["DELETE", "/v1/service/echo", "POST"],
    ["OPTIONS", "/v1/service/echo", "POST"],
    ["POST", "/v1/service/things/7", "GET, HEAD, PUT"],
    ["PATCH", "/v1/service/things/newest", "GET, HEAD, PUT"],
  ])("for %s on %s is method_not_allowed and names what is", async (method, path, allowed) => {
    const answer = await api.client().call(method, path);
    expect(answer).toMatchObject({
      status: 405,
      body: { error: { code: "method_not_allowed", status: 405 } },
    });
    expect(answer.headers.get("allow")).toBe(allowed);
  });

  test("of ours is internal, says nothing of itself, and is logged with the request's id", async () => {
    fail = async () => {
      throw Object.assign(new Error("boom at table x"), {
        code: "23505",
        detail: "Key (email)=(ada@example.com) exists",
      });
    };
    const answer = await post(FAIL, {
      "x-request-id": "trace-1",
      cookie: "service_session=sesame",
      authorization: "Bearer sesame",
    });
    expect(answer).toMatchObject({
      status: 500,
      body: { error: { code: "internal", message: errorCodes.internal[1] } },
    });
    expect(answer.text).not.toContain("boom");
    const line = JSON.parse(api.lines.at(-1) ?? "");
    expect(line).toMatchObject({
      level: 50,
      request_id: "trace-1",
      route: "fail",
      fault: { type: "Error", code: "23505", message: "boom at table x" },
    });
    expect(line.fault.stack).toContain("errors.test.ts");
    expect(api.lines.at(-1)).not.toContain("sesame");
    expect(api.lines.at(-1)).not.toContain("ada@example.com");
  });

  test.each([
    ["undefined", undefined],
    ["a string", "oops"],
    ["null", null],
  ])("that is %s thrown is internal too", async (_, thrown) => {
    fail = async () => {
      throw thrown;
    };
    expect(await post(FAIL)).toMatchObject({ status: 500, body: { error: { code: "internal" } } });
  });

  test.each([
    ["a value of a wrong form", { account_id: "secret-1", email: "secret-2@example.com" }, "22P02"],
    [
      "a value that is there already",
      { account_id: "019a0000-0000-7000-8000-00000000000a", email: "secret-3@example.com" },
      "23505",
    ],
    [
      "a value that is not allowed",
      { account_id: "019a0000-0000-7000-8000-00000000000b", email: "SECRET-4@example.com" },
      "23514",
    ],
  ])("of a database's statement with %s is logged without it", async (_, row, code) => {
    const columns = { onboarding_step: "profile" as const, created_at: new Date() };
    fail = async () => {
      const taken = { account_id: "019a0000-0000-7000-8000-00000000000a", email: "taken@example.com" };
      await api
        .db("accounts")
        .insert({ ...taken, ...columns })
        .onConflict()
        .ignore();
      await api.db("accounts").insert({ ...row, ...columns });
      throw new Error("not reached");
    };
    expect(await post(FAIL)).toMatchObject({ status: 500 });
    const line = api.lines.at(-1) ?? "";
    expect(JSON.parse(line).fault).toMatchObject({ type: "error", code });
    expect(line).toContain('insert into \\"accounts\\"');
    expect(line).toContain(`SQLSTATE ${code}`);
    expect(line.toLowerCase()).not.toContain("secret-");
    expect(line).not.toContain("00000000000a");
  });

  test("of the vault is vault_unavailable", async () => {
    fail = async () => {
      throw new VaultUnavailable("sealed", "sealed");
    };
    const answer = await post(FAIL);
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "vault_unavailable" } } });
    expect(answer.headers.get("retry-after")).toBeNull();
  });

  test.each([
    [3, "3"],
    [undefined, null],
  ])(
    "of a vault that is asked too often is vault_unavailable too, with the time to come again if it told one (%s)",
    async (seconds, header) => {
      fail = async () => {
        throw new VaultRefused("rate_limited", "Too many calls", 429, seconds);
      };
      const answer = await post(FAIL);
      expect(answer).toMatchObject({ status: 503, body: { error: { code: "vault_unavailable" } } });
      expect(answer.headers.get("retry-after")).toBe(header);
    },
  );

  test.each([
    ["connection refused", Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })],
    ["connection reset", Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" })],
    ["cannot connect now", Object.assign(new Error("the database system is starting up"), { code: "57P03" })],
    ["admin shutdown", Object.assign(new Error("terminating connection"), { code: "57P01" })],
    ["connection failure", Object.assign(new Error("x"), { code: "08006" })],
    ["too many connections", Object.assign(new Error("x"), { code: "53300" })],
    ["deadlock", Object.assign(new Error("x"), { code: "40P01" })],
    ["read-only server", Object.assign(new Error("x"), { code: "25006" })],
    ["pool timeout", new Error("timeout exceeded when trying to connect")],
    ["statement on a dead connection", new Error("select 1 - Connection terminated unexpectedly")],
  ])("of a database away (%s) is unavailable", async (_, error) => {
    fail = async () => {
      throw error;
    };
    expect(await post(FAIL)).toMatchObject({
      status: 503,
      body: { error: { code: "unavailable", status: 503 } },
    });
    expect(JSON.parse(api.lines.at(-1) ?? "")).toMatchObject({ level: 40, route: "fail" });
  });

  test.each(["23505", "22P02", "42P01", "ENOENT"])(
    "with code %s is no sign of a part being away",
    async (code) => {
      fail = async () => {
        throw Object.assign(new Error("x"), { code });
      };
      expect((await post(FAIL)).status).toBe(500);
    },
  );

  test("that its route does not declare, or an answer other than declared, shows in tests", async () => {
    fail = refusal("platform_limit");
    expect((await post(FAIL)).status).toBe(500);
    expect(api.lines.at(-1)).toContain("fail does not declare platform_limit");
    expect((await post("/v1/service/lying")).status).toBe(500);
    expect(api.lines.at(-1)).toContain("lying answers otherwise than declared");
  });
});

describe("a database that is really away", () => {
  test("makes calls unavailable, and they work again when it is back", async () => {
    const proxy = await startTcpProxy(api.databaseUrl);
    const away = await startApi({ shares: api, databaseUrl: proxy.url });
    const client = away.client();
    await client.signIn("away@example.com");
    const unavailable = { status: 503, body: { error: { code: "unavailable", status: 503 } } };
    const calls = [
      () => client.get("/v1/auth/session"),
      () => client.post("/v1/auth/refresh"),
      () => client.post("/v1/auth/email/send-code", { email: "away@example.com" }),
    ];
    proxy.cut();
    for (const call of calls) expect(await call()).toMatchObject(unavailable);
    proxy.mend();
    expect((await client.get("/v1/auth/session")).status).toBe(200);

    proxy.stall();
    const waiting = client.get("/v1/auth/session");
    await new Promise((resolve) => setTimeout(resolve, 100));
    proxy.cut();
    expect(await waiting).toMatchObject(unavailable);
    proxy.mend();
    for (const call of calls) expect((await call()).status).toBe(200);
    await away.stop();
    await proxy.stop();
  });
});

describe("every answer", () => {
  test.each([
    ["a success", "POST", "/v1/service/echo"],
    ["a page", "GET", "/dev/mailbox"],
    ["not found", "GET", "/v1/nothing"],
    ["not allowed", "GET", "/v1/service/echo"],
    ["a parameter's route", "GET", "/v1/service/things/7"],
  ])("has the headers that keep it from being guessed, framed or kept: %s", async (_, method, path) => {
    const { headers } = await api.client().call(method, path, { csrf: false });
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("content-security-policy")).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("x-powered-by")).toBeNull();
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("asks browsers to keep to https when the service is reached by it, and only then", async () => {
    const secure = await startApi({ shares: api, config: { BASE_URL: "https://api.example.com" } });
    expect((await secure.client().get("/v1/none")).headers.get("strict-transport-security")).toBe(
      "max-age=31536000",
    );
    expect((await api.client().get("/v1/none")).headers.get("strict-transport-security")).toBeNull();
    await secure.stop();
  });

  test.each([
    "trace-1",
    "A".repeat(128),
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "a/b:c.d_e=f+g@h",
  ])("carries the caller's request id %s", async (id) => {
    for (const path of ["/v1/service/echo", "/v1/none", FAIL, "/v1/auth/refresh"]) {
      expect((await post(path, { "x-request-id": id })).headers.get("x-request-id")).toBe(id);
    }
  });

  test.each(["", "A".repeat(129), "a b", "a,b", "<script>", 'x"y'])(
    "carries a new request id instead of %j",
    async (id) => {
      const sent = (await post("/v1/service/echo", { "x-request-id": id })).headers.get("x-request-id");
      expect(sent).toMatch(/^[0-9a-f]{8}-/);
    },
  );

  test("has a request id of its own", async () => {
    const ids = await Promise.all(
      [1, 2, 3].map(async () => (await post("/v1/service/echo")).headers.get("x-request-id")),
    );
    expect(new Set(ids).size).toBe(3);
  });
});

describe("a path", () => {
  test("prefers the route that names it over the one with a parameter, whatever their order", async () => {
    expect((await api.client().get("/v1/service/things/newest")).body).not.toHaveProperty("params.thing_id");
    expect((await api.client().get("/v1/service/things/other")).body).toMatchObject({
      params: { thing_id: "other" },
    });
  });

  test("prefers the route with fewer parameters, whatever their order", async () => {
    const part = await api.client().get("/v1/service/things/7/parts/newest");
    expect(part.body).toMatchObject({ params: { thing_id: "7" } });
    expect(part.body).not.toHaveProperty("params.part_id");
  });

  test("gives its parameters decoded; one that holds what cannot be stored names nothing", async () => {
    expect((await api.client().get("/v1/service/things/a%2Fb%20c")).body).toMatchObject({
      params: { thing_id: "a/b c" },
    });
    expect((await api.client().get("/v1/service/things/a%00b")).status).toBe(404);
  });

  test("answers HEAD as GET, without the body", async () => {
    const answer = await api.client().call("HEAD", "/v1/service/things/newest", { csrf: false });
    expect(answer.status).toBe(200);
    expect(Number(answer.headers.get("content-length"))).toBeGreaterThan(2);
    expect(answer.text).toBe("");
  });

  test("may be written with the host in front, as proxies do", async () => {
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(api.server.port, "127.0.0.1", () =>
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

  test("of any kind gets an answer, and no fault of ours", async () => {
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

/** Sends a request whose target nobody has tidied. */
function sendAsWritten(method: string, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port: api.server.port, method, path }, (answer) => {
      answer.resume();
      answer.once("end", () => resolve(answer));
    });
    sent.once("error", reject).end();
  });
}
