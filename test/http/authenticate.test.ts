import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { claimLeadership } from "../../src/clusters/leader_epochs.ts";
import { OPERATOR_TOKEN, startApi, type TestApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";
import { echoRoute } from "./support/sample_routes.ts";

const caller = {
  accountId: "a",
  principalAccountId: "a",
  isCustomer: false,
  connectionId: "c",
  keyPrefix: "k",
  verifierId: "v",
  registryAnswers: false,
  role: "full" as const,
  agentId: null,
  explanationValues: "full" as const,
};
const error = (status: number, code: string) => ({ status, body: { error: { code, status } } });

let api: TestApi;
let seen: string[];
beforeAll(async () => {
  seen = [];
  api = await startApi({
    authenticators: {
      findApiKey: async (presented) => {
        seen.push(presented);
        return presented === "known" ? caller : undefined;
      },
    },
    routes: [
      echoRoute({ id: "keyed", access: "api_key", path: "/v1/service/keyed" }),
      echoRoute({ id: "seen", access: "session", method: "GET", path: "/v1/service/seen" }),
      echoRoute({ id: "changed", access: "session", path: "/v1/service/changed" }),
      echoRoute({ id: "replaced", access: "session", method: "PUT", path: "/v1/service/changed" }),
      echoRoute({ id: "patched", access: "session", method: "PATCH", path: "/v1/service/changed" }),
      echoRoute({ id: "removed", access: "session", method: "DELETE", path: "/v1/service/changed" }),
      echoRoute({ id: "early", access: "session", onboarding: "any", path: "/v1/service/early" }),
      echoRoute({ id: "shared", access: "account", path: "/v1/service/shared" }),
      echoRoute({ id: "internal", access: "operator", path: "/internal/v1/echo" }),
    ],
  });
});
afterAll(() => api.stop());

describe("an API key", () => {
  const call = (headers: Record<string, string>) =>
    api.client().post("/v1/service/keyed", undefined, { headers });

  test("identifies its connection if the key is known", async () => {
    expect(await call({ "X-Service-API-Key": "known" })).toMatchObject({ status: 200, body: { caller } });
  });

  test.each([
    ["missing", {}],
    ["empty", { "x-service-api-key": "" }],
    ["unknown", { "x-service-api-key": "unknown" }],
    ["in another header", { authorization: "Bearer known" }],
  ])("causes a 401 if it is %s", async (_, headers) => {
    expect(await call(headers)).toMatchObject(error(401, "invalid_api_key"));
  });

  test("causes a 401 if it is sent twice", async () => {
    const headers = new Headers({ "x-service-api-key": "known" });
    headers.append("x-service-api-key", "known");
    const response = await fetch(`${api.url}/v1/service/keyed`, { method: "POST", headers });
    expect(response.status).toBe(401);
  });

  test("causes a 401 before the body is read or validated if the key is invalid", async () => {
    const answer = await api.client().post("/v1/service/keyed", "{not json", { headers: {} });
    expect(answer.status).toBe(401);
  });

  test("gives no access to a call that requires a session", async () => {
    const answer = await api.client().get("/v1/service/seen", { headers: { "x-service-api-key": "known" } });
    expect(answer).toMatchObject(error(401, "auth_required"));
  });
});

describe("a call that accepts a session or an API key", () => {
  const call = (client: HttpClient, headers: Record<string, string> = {}, csrf = true) =>
    client.post("/v1/service/shared", undefined, { headers, csrf });

  test("receives the application's connection, but no person, from an API key", async () => {
    const byKey = await call(api.client(), { "x-service-api-key": "known" });
    expect(byKey).toMatchObject({ status: 200, body: { caller: { accountId: "a", connectionId: "c" } } });
    const client = api.client();
    const { account_id: accountId } = await client.onboard("grace@example.com");
    expect((await call(client)).body).toMatchObject({ caller: { accountId, connectionId: null } });
  });

  test("requires the CSRF header with a session, but not with an API key", async () => {
    const client = api.client();
    await client.onboard("edsger@example.com");
    expect(await call(client, {}, false)).toMatchObject(error(403, "csrf_failed"));
    expect((await call(client, { "x-service-api-key": "known" }, false)).status).toBe(200);
  });

  test("fails with a wrong or empty key even with a valid session, and fails with neither key nor session", async () => {
    const client = api.client();
    await client.onboard("barbara@example.com");
    for (const key of ["unknown", ""]) {
      const answer = await call(client, { "x-service-api-key": key });
      expect(answer).toMatchObject(error(401, "invalid_api_key"));
    }
    expect(await call(api.client())).toMatchObject(error(401, "auth_required"));
  });
});

describe("a session", () => {
  let client: HttpClient;
  let ids: { account_id: string };
  beforeAll(async () => {
    client = api.client();
    ids = await client.onboard("ada@example.com");
  });

  test("identifies the account", async () => {
    expect(await client.get("/v1/service/seen")).toMatchObject({
      status: 200,
      body: { caller: { accountId: ids.account_id, onboardingStep: "complete" } },
    });
  });

  test("never gives the handler the session's CSRF hash", async () => {
    const { caller: shown } = (await client.get("/v1/service/seen")).body;
    expect(Object.keys(shown as object).sort()).toEqual([
      "accountId",
      "familyId",
      "onboardingStep",
      "organization",
      "person",
      "serviceAdministrator",
      "sessionId",
    ]);
  });

  test("with incomplete onboarding may make only the calls that do not require complete onboarding", async () => {
    const fresh = api.client();
    await fresh.signIn("fresh@example.com");
    expect(await fresh.get("/v1/service/seen")).toMatchObject(error(403, "onboarding_incomplete"));
    expect((await fresh.post("/v1/service/early")).status).toBe(200);
    await fresh.post("/v1/auth/onboarding/profile", { first_name: "A", last_name: "B" });
    expect(await fresh.get("/v1/service/seen")).toMatchObject(error(403, "onboarding_incomplete"));
    await fresh.post("/v1/auth/onboarding/account-type", { account_type: "individual" });
    expect((await fresh.get("/v1/service/seen")).status).toBe(200);
  });

  test.each(["POST", "PUT", "PATCH", "DELETE"])(
    "cannot be used for %s without its CSRF token",
    async (method) => {
      const call = (options: Parameters<HttpClient["call"]>[2]) =>
        client.call(method, "/v1/service/changed", options);
      const refused = error(403, "csrf_failed");
      expect((await call({})).status).toBe(200);
      expect(await call({ csrf: false })).toMatchObject(refused);
      expect(await call({ headers: { "x-service-csrf": "" } })).toMatchObject(refused);
      expect(await call({ headers: { "x-service-csrf": "x".repeat(43) } })).toMatchObject(refused);
    },
  );

  test("cannot be used if another session's cookie is sent beside it, in either order", async () => {
    const planted = api.client();
    await planted.onboard("planted@example.com");
    const pair = [client, planted].map((each) => `service_session=${each.cookie("service_session")}`);
    for (const cookie of [pair.join("; "), pair.reverse().join("; ")]) {
      const answer = await api.client().get("/v1/service/seen", { headers: { cookie } });
      expect(answer).toMatchObject(error(400, "invalid_request"));
    }
    expect((await client.get("/v1/service/seen")).status).toBe(200);
  });

  test("cannot be used with a forged pair of CSRF cookie and header", async () => {
    const forged = api.client();
    forged.setCookie("service_session", client.cookie("service_session") ?? "");
    forged.setCookie("service_csrf", "x".repeat(43));
    expect(await forged.post("/v1/service/changed")).toMatchObject(error(403, "csrf_failed"));
  });

  test("cannot be used with the CSRF token of a different session", async () => {
    const other = api.client();
    await other.onboard("eve@example.com");
    const mixed = api.client();
    mixed.setCookie("service_session", client.cookie("service_session") ?? "");
    mixed.setCookie("service_csrf", other.cookie("service_csrf") ?? "");
    expect(await mixed.post("/v1/service/changed")).toMatchObject(error(403, "csrf_failed"));
  });

  test("requires the CSRF cookie as well as the header", async () => {
    const bare = api.client();
    bare.setCookie("service_session", client.cookie("service_session") ?? "");
    const headers = { "x-service-csrf": client.cookie("service_csrf") ?? "" };
    expect(await bare.post("/v1/service/changed", undefined, { headers })).toMatchObject(
      error(403, "csrf_failed"),
    );
  });

  test("gives no access to calls that require an API key or the operator", async () => {
    expect(await client.post("/v1/service/keyed")).toMatchObject(error(401, "invalid_api_key"));
    const operator = api.operatorClient();
    operator.setCookie("service_session", client.cookie("service_session") ?? "");
    expect(await operator.post("/internal/v1/echo")).toMatchObject(error(401, "operator_unauthorized"));
  });
});

describe("an operator's call", () => {
  const headers = (epoch: string, cluster = "cluster-1", token = OPERATOR_TOKEN) => ({
    authorization: `Bearer ${token}`,
    "x-deputize-cluster": cluster,
    "x-deputize-epoch": epoch,
  });
  const call = (sent: Record<string, string>, at = api) =>
    at.operatorClient().post("/internal/v1/echo", undefined, { headers: sent });

  const claim = (clusterId: string) => claimLeadership(api, { clusterId });

  test("must contain the operator's token, the cluster's id and the leader's epoch", async () => {
    const epoch = await claim("cluster-1");
    expect(await call(headers(String(epoch)))).toMatchObject({
      status: 200,
      body: { caller: { clusterId: "cluster-1" } },
    });
  });

  test.each([
    ["no header", {}],
    ["another token", headers("1", "cluster-1", "x".repeat(OPERATOR_TOKEN.length))],
    ["a longer token", headers("1", "cluster-1", `${OPERATOR_TOKEN}x`)],
    ["another scheme", { ...headers("1"), authorization: `Basic ${OPERATOR_TOKEN}` }],
    ["no scheme", { ...headers("1"), authorization: OPERATOR_TOKEN }],
  ])("fails with %s", async (_, sent) => {
    expect(await call(sent as Record<string, string>)).toMatchObject(error(401, "operator_unauthorized"));
  });

  test.each([
    ["no cluster", { authorization: `Bearer ${OPERATOR_TOKEN}`, "x-deputize-epoch": "1" }],
    ["a cluster of other characters", headers("1", "a/b")],
    ["a cluster of 65 characters", headers("1", "a".repeat(65))],
    ["no epoch", { authorization: `Bearer ${OPERATOR_TOKEN}`, "x-deputize-cluster": "cluster-1" }],
    ["an epoch that is not a number", headers("one")],
    ["a negative epoch", headers("-1")],
    ["an epoch that is too large", headers("9".repeat(16))],
  ])("gets 400 with %s", async (_, sent) => {
    expect(await call(sent as Record<string, string>)).toMatchObject(error(400, "invalid_request"));
  });

  test("fails on every replica with any epoch except the epoch of the newest leader", async () => {
    const other = await startApi({
      shares: api,
      routes: [echoRoute({ id: "internal", access: "operator", path: "/internal/v1/echo" })],
    });
    expect(await call(headers("1", "cluster-2"))).toMatchObject(error(409, "stale_epoch"));
    const [former, leader] = [await claim("cluster-2"), await claim("cluster-2")];
    for (const at of [api, other]) {
      expect(await call(headers(String(former), "cluster-2"), at)).toMatchObject(error(409, "stale_epoch"));
      expect(await call(headers(String(leader), "cluster-2"), at)).toMatchObject({ status: 200 });
      expect(await call(headers(String(leader + 1), "cluster-2"), at)).toMatchObject(
        error(409, "stale_epoch"),
      );
      expect(await call(headers(String(leader), "cluster-3"), at)).toMatchObject(error(409, "stale_epoch"));
    }
    await other.stop();
  });

  test("always fails if no operator token is configured", async () => {
    const { createSharedToken } = await import("../../src/clusters/identify_operator.ts");
    const isOperator = createSharedToken(undefined);
    expect(isOperator("")).toBe(false);
    expect(isOperator("undefined")).toBe(false);
  });
});

test("an API key never appears in the log", async () => {
  await api
    .client()
    .post("/v1/service/keyed", undefined, { headers: { "x-service-api-key": "very-secret-key" } });
  expect(seen).toContain("very-secret-key");
  expect(api.lines.join("")).not.toContain("very-secret-key");
});
