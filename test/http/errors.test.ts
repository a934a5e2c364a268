import { describe, expect, test } from "vitest";
import { errorCodes } from "../../src/errors.ts";
import { VaultCertificateExpired } from "../../src/vault/certificate_fault.ts";
import { VaultRefused, VaultUnavailable } from "../../src/vault/client.ts";
import { startApi } from "../support/api.ts";
import { startTcpProxy } from "../support/surroundings/tcp_proxy.ts";
import { FAIL, sampleApi } from "./support/sample_api.ts";
import { refusal } from "./support/sample_routes.ts";
import { sendRaw } from "./walk/call.ts";

const world = sampleApi();
const { post } = world;

describe("an error response", () => {
  test("contains exactly its code, message and status, and sets its headers", async () => {
    world.fail = refusal("agent_disabled", "It sleeps", { "retry-after": "7" });
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
    ["a path with an additional slash", "POST", "/v1/service/echo/"],
    ["a path in another case", "POST", "/v1/service/ECHO"],
    ["a path with another service word", "POST", "/v1/ratify/echo"],
    ["an encoded path", "POST", "/v1/service/%65cho"],
    ["an empty path parameter", "GET", "/v1/service/things/"],
  ])("has the code not_found for %s", async (_, method, path) => {
    const answer = await world.api.client().call(method, path);
    expect(answer).toMatchObject({ status: 404, body: { error: { code: "not_found", status: 404 } } });
  });

  test.each([
    ["GET", "/v1/service/echo", "POST"],
    ["DELETE", "/v1/service/echo", "POST"],
    ["OPTIONS", "/v1/service/echo", "POST"],
    ["POST", "/v1/service/things/7", "GET, HEAD, PUT"],
    ["PATCH", "/v1/service/things/newest", "GET, HEAD"],
    ["PUT", "/v1/service/things/newest", "GET, HEAD"],
    ["PUT", "/v1/service/things/7/parts/newest", "GET, HEAD"],
    ["HEAD", "/v1/service/echo", "POST"],
    ["TRACE", "/v1/service/things/7", "GET, HEAD, PUT"],
    ["OPTIONS", "/v1/service/things/newest", "GET, HEAD"],
  ])(
    "has the code method_not_allowed for %s on %s, and names the allowed methods",
    async (method, path, allowed) => {
      const { port } = world.api;
      const answer = await sendRaw(`http://127.0.0.1:${port}`, { method, path, headers: [] });
      expect(answer.status).toBe(405);
      expect(answer.text).toMatch(method === "HEAD" ? /^$/ : /^\{"error":\{"code":"method_not_allowed",/);
      expect(answer.headers.get("allow")).toBe(allowed);
    },
  );

  test('has the code "internal" for an unexpected exception, reveals nothing, and is logged with its request id', async () => {
    world.fail = async () => {
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
    const line = JSON.parse(world.api.lines.at(-1) ?? "");
    expect(line).toMatchObject({
      level: 50,
      request_id: "trace-1",
      route: "fail",
      fault: { type: "Error", code: "23505", message: "boom at table x" },
    });
    expect(line.fault.stack).toContain("errors.test.ts");
    expect(world.api.lines.at(-1)).not.toContain("sesame");
    expect(world.api.lines.at(-1)).not.toContain("ada@example.com");
  });

  test.each([
    ["undefined", undefined],
    ["a string", "oops"],
    ["null", null],
  ])('has the code "internal" if %s is thrown', async (_, thrown) => {
    world.fail = async () => {
      throw thrown;
    };
    expect(await post(FAIL)).toMatchObject({ status: 500, body: { error: { code: "internal" } } });
  });

  test.each([
    ["an invalid value", { account_id: "secret-1", email: "secret-2@example.com" }, "22P02"],
    [
      "a duplicate value",
      { account_id: "019a0000-0000-7000-8000-00000000000a", email: "secret-3@example.com" },
      "23505",
    ],
    [
      "a forbidden value",
      { account_id: "019a0000-0000-7000-8000-00000000000b", email: "SECRET-4@example.com" },
      "23514",
    ],
  ])("caused by a database statement with %s appears in the log without the value", async (_, row, code) => {
    const columns = { onboarding_step: "profile" as const, created_at: new Date() };
    world.fail = async () => {
      const taken = { account_id: "019a0000-0000-7000-8000-00000000000a", email: "taken@example.com" };
      await world.api
        .db("accounts")
        .insert({ ...taken, ...columns })
        .onConflict()
        .ignore();
      await world.api.db("accounts").insert({ ...row, ...columns });
      throw new Error("not reached");
    };
    expect(await post(FAIL)).toMatchObject({ status: 500 });
    const line = world.api.lines.at(-1) ?? "";
    expect(JSON.parse(line).fault).toMatchObject({ type: "error", code });
    expect(line).toContain('insert into \\"accounts\\"');
    expect(line).toContain(`SQLSTATE ${code}`);
    expect(line.toLowerCase()).not.toContain("secret-");
    expect(line).not.toContain("00000000000a");
  });

  test("has the code vault_unavailable if the vault is unavailable", async () => {
    world.fail = async () => {
      throw new VaultUnavailable("sealed", "sealed");
    };
    const answer = await post(FAIL);
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "vault_unavailable" } } });
    expect(answer.headers.get("retry-after")).toBe("5");
  });

  test("says that a certificate has expired, but to callers neither whose nor when", async () => {
    world.fail = async () => {
      throw new VaultCertificateExpired("The key vault's certificate has expired: renew it", undefined);
    };
    const { status, body } = await post(FAIL);
    expect([status, body.error]).toEqual([
      503,
      expect.objectContaining({
        code: "vault_unavailable",
        message:
          "The key vault did not sign, because a certificate between it and the service has expired; nothing was changed",
      }),
    ]);
    expect(JSON.parse(world.api.lines.at(-1) ?? "").fault.message).toContain("The key vault's certificate");
  });

  test.each([
    [3, "3"],
    [undefined, "5"],
  ])(
    "has the code vault_unavailable, with Retry-After, if the vault's rate limit is reached (%s)",
    async (seconds, header) => {
      world.fail = async () => {
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
    ["idle transaction ended", Object.assign(new Error("x"), { code: "25P03" })],
    ["disk fault", Object.assign(new Error("x"), { code: "58030" })],
    [
      "several addresses, none of which answers",
      new AggregateError([Object.assign(new Error("x"), { code: "ECONNREFUSED" })]),
    ],
    ["pool timeout", new Error("timeout exceeded when trying to connect")],
    ["statement on a dead connection", new Error("select 1 - Connection terminated unexpectedly")],
  ])("has the code unavailable if the database is unavailable (%s)", async (_, error) => {
    world.fail = async () => {
      throw error;
    };
    const answer = await post(FAIL);
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "unavailable", status: 503 } } });
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(JSON.parse(world.api.lines.at(-1) ?? "")).toMatchObject({ level: 40, route: "fail" });
  });

  test.each(["23505", "22P02", "42P01", "ENOENT"])(
    "has the code internal for the cause %s, which is not an outage",
    async (code) => {
      world.fail = async () => {
        throw Object.assign(new Error("x"), { code });
      };
      expect((await post(FAIL)).status).toBe(500);
    },
  );

  test("has the code internal if the route does not declare the thrown code, as for every undeclared answer", async () => {
    world.fail = refusal("platform_limit");
    expect((await post(FAIL)).status).toBe(500);
    expect(world.api.lines.at(-1)).toContain("fail does not declare the error code platform_limit");
    expect((await post("/v1/service/lying")).status).toBe(500);
    expect(world.api.lines.at(-1)).toContain("lying returned an answer that its schema does not allow");
  });
});

describe("an unavailable database", () => {
  test("makes calls return unavailable until it is back", async () => {
    const proxy = await startTcpProxy(world.api.databaseUrl);
    const away = await startApi({ shares: world.api, databaseUrl: proxy.url });
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
