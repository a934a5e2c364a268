import { describe, expect, test } from "vitest";
import { setCredit } from "../../support/account_rows.ts";
import { startApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import {
  type Application,
  certify,
  decisionsOf,
  errorOf,
  proofApi,
  registryApplication,
} from "../application.ts";
import { BOUND_SCOPE, operationOf, prove } from "../bound_operations.ts";
import { question } from "../questions.ts";

const world = proofApi();

const ask = (app: Application, body: unknown, headers = {}): Promise<HttpAnswer> =>
  world.api.client().post("/access/v1/evaluation", body, {
    headers: { "x-service-api-key": app.platform.apiKey, ...headers },
    csrf: false,
  });

/** Sends a question as text, for numbers that JSON.stringify cannot write. */
async function askRaw(app: Application, body: string): Promise<HttpAnswer> {
  const headers = { "content-type": "application/json", "x-service-api-key": app.platform.apiKey };
  const response = await fetch(`${world.api.url}/access/v1/evaluation`, { method: "POST", headers, body });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text), text };
}

describe("an AuthZEN question with a proof", () => {
  test("charges and records the decision, and spends the proof", async () => {
    const app = await world.application();
    const context = { proof_bundle: await app.proof() };
    const first = await ask(app, question(app, { context }));
    expect(first.body).toEqual({
      decision: true,
      context: {
        assurance: "proof",
        reason: "authorized",
        cert_id: app.certId,
        agent_id: app.agentId,
        human_id: app.person.humanId,
        receipt_id: expect.any(String),
        receipt_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        replayed: false,
      },
    });
    expect(await decisionsOf(world, app)).toBe(1);
    const again = await ask(app, question(app, { context }));
    expect(again.body).toEqual({ decision: false, context: { reason: "invalid_challenge" } });
  });

  test("may contain a proof reference, and gets false with the verifier's reason for a denial", async () => {
    const app = await world.application();
    const { proof_ref } = (await app.present()).body;
    const denied = await ask(app, question(app, { action: { name: "data:share" }, context: { proof_ref } }));
    expect(denied.body).toMatchObject({
      decision: false,
      context: { assurance: "proof", reason: "not_delegated" },
    });
  });

  test("provides the context against which constraints are evaluated", async () => {
    const app = await world.application([]);
    await certify(app, ["data:read"], {
      constraints: [{ type: "max_amount", max_amount: 10, currency: "USD" }],
    });
    const decide = async (facts: object) =>
      (await ask(app, question(app, { context: { proof_bundle: await app.proof(), ...facts } }))).body;
    expect(await decide({ amount: 10, currency: "USD" })).toMatchObject({ decision: true });
    expect(await decide({ amount: 11, currency: "USD" })).toMatchObject({
      decision: false,
      context: { reason: "constraint_denied" },
    });
    expect(errorOf(await ask(app, question(app, { context: { amount: "10" } })))).toBe("400 invalid_request");
  });

  test("may have large numbers in the free-form context and properties, but not in a fact that constraints use", async () => {
    const app = await world.application([]);
    await certify(app, ["data:read"], {
      constraints: [{ type: "max_amount", max_amount: 2 ** 53 - 1, currency: "USD" }],
    });
    const proof_bundle = await app.proof();
    const body = (facts: string) =>
      JSON.stringify(question(app, { context: { proof_bundle, currency: "USD", facts: 0 } }))
        .replace('"facts":0', facts)
        .replace('"action":{', '"action":{"properties":{"at":1764417600123456789},');
    const send = (facts: string) => askRaw(app, body(facts));
    for (const amount of ["9007199254740993", "9007199254740992", "9007199254740992.0", "1e16"]) {
      expect(errorOf(await send(`"amount":${amount}`))).toBe("400 invalid_request");
    }
    expect((await send('"amount":7,"at":{"ns":[1764417600123456789]}')).body).toMatchObject({
      decision: true,
    });
  });

  test("gets the newest certificate's reason if it is repeated without the proof and no certificate allows the action", async () => {
    const app = await registryApplication(world, []);
    await certify(app, ["data:read"], {
      constraints: [{ type: "max_amount", max_amount: 10, currency: "USD" }],
    });
    world.api.clock.advance(1);
    await certify(app, ["data:read"], { constraints: [{ type: "max_speed_mps", max_mps: 1 }] });
    const reason = async (context: object) =>
      ((await ask(app, question(app, { context }))).body.context as { reason: string }).reason;
    expect(await reason({ amount: 11, currency: "USD" })).toBe("constraint_unverifiable");
    expect(await reason({ amount: 11, currency: "USD", speed_mps: 2 })).toBe("constraint_denied");
    expect(await reason({ amount: 10, currency: "USD" })).toBe("authorized");
  });

  test("may name an operation, and gets false if the operation was already allowed", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const action = { name: BOUND_SCOPE };
    const context = { proof_bundle: await prove(app, operation), operation };
    const first = await ask(app, question(app, { action, context }));
    expect(first.body).toMatchObject({ decision: true, context: { replayed: false } });
    const again = await ask(app, question(app, { action, context }));
    const replayed = {
      decision: false,
      context: { ...(first.body.context as object), reason: "replayed", replayed: true },
    };
    expect(again.body).toEqual(replayed);
    expect(await decisionsOf(world, app)).toBe(1);
    const fresh = { proof_bundle: await prove(app, operation), operation };
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    for (const asked of [context, fresh]) {
      expect((await ask(app, question(app, { action, context: asked }))).body).toEqual(replayed);
    }
    const changed = { ...context, operation: { ...operation, resource_id: "order-8" } };
    expect((await ask(app, question(app, { action, context: changed }))).body).toEqual({
      decision: false,
      context: { reason: "invocation_conflict" },
    });
    const elsewhere = { ...context, operation: { ...operation, verifier_id: "other" } };
    expect((await ask(app, question(app, { action, context: elsewhere }))).body).toEqual({
      decision: false,
      context: { reason: "verifier_mismatch" },
    });
  });

  test("gets the same reason again for a repeated denial", async () => {
    const app = await world.application(["data:read"]);
    const operation = operationOf(app);
    const { proof_bundle } = (await app.present({ operation })).body;
    const asked = question(app, { action: { name: BOUND_SCOPE }, context: { proof_bundle, operation } });
    const first = await ask(app, asked);
    expect(first.body).toMatchObject({ decision: false, context: { reason: "not_delegated" } });
    expect((await ask(app, asked)).body).toEqual({
      decision: false,
      context: { ...(first.body.context as object), replayed: true },
    });
  });

  test("gets invocation_conflict if the fresh proof is for a different operation with the same invocation id", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const action = { name: BOUND_SCOPE };
    const reasonOf = async (bound: typeof operation) => {
      const context = { proof_bundle: await prove(app, bound), operation: bound };
      const { body } = await ask(app, question(app, { action, context }));
      return (body.context as { reason: string }).reason;
    };
    expect(await reasonOf(operation)).toBe("authorized");
    const other = { resource_id: "order-8", invocation_id: operation.invocation_id ?? "" };
    expect(await reasonOf(operationOf(app, other))).toBe("invocation_conflict");
  });

  test("gets false and spends nothing if the question names a different agent than the proof", async () => {
    const app = await world.application();
    const proof_bundle = await app.proof();
    const other = question(app, {
      subject: { type: "agent", id: "0".repeat(32) },
      context: { proof_bundle },
    });
    expect((await ask(app, other)).body).toEqual({ decision: false, context: { reason: "invalid_proof" } });
    expect((await ask(app, question(app, { context: { proof_bundle } }))).body.decision).toBe(true);
  });

  test("gets 402 if there is no credit", async () => {
    const app = await world.application();
    await setCredit(world.api.db, app.person.accountId, 0);
    const answer = await ask(app, question(app, { context: { proof_bundle: await app.proof() } }));
    expect(errorOf(answer)).toBe("402 credits_exhausted");
  });
});

describe("an AuthZEN question", () => {
  test("gets false for unknown types and for a connection of a different account", async () => {
    const [app, other] = [await world.application(), await world.application()];
    const reason = async (changes: object) => (await ask(app, question(app, changes as never))).body;
    expect(await reason({ subject: { type: "user", id: app.agentId } })).toEqual({
      decision: false,
      context: { reason: "unknown_subject" },
    });
    for (const resource of [
      { type: "document", id: app.platform.connectionId },
      { type: "connection", id: other.platform.connectionId },
    ]) {
      expect(await reason({ resource })).toEqual({
        decision: false,
        context: { reason: "unknown_resource" },
      });
    }
    expect((await reason({ subject: { type: "agent", id: other.agentId } })).decision).toBe(false);
  });

  test.each([
    ["subject", { subject: undefined }],
    ["subject.id", { subject: { type: "agent" } }],
    ["action", { action: undefined }],
    ["action.name", { action: {} }],
    ["resource", { resource: undefined }],
    ["resource.type", { resource: { id: "x" } }],
    ["subject (an object)", { subject: "x" }],
    ["context (an object)", { context: [] }],
    ["subject.id (without U+0000)", { subject: { type: "agent", id: "\u0000" } }],
  ])("gets 400 without a valid %s", async (_, changes) => {
    const app = await world.application();
    expect(errorOf(await ask(app, question(app, changes)))).toBe("400 invalid_request");
  });

  test("gets an error that names the invalid member", async () => {
    const app = await world.application();
    const answer = await ask(app, question(app, { action: { name: "x".repeat(257) } }));
    expect(answer.body.error).toMatchObject({
      code: "invalid_request",
      message: expect.stringMatching(/^action\.name: /),
    });
  });

  test("gets 400 for a wrong content type and 401 without a key, and both answers contain the question's X-Request-ID", async () => {
    const app = await world.application();
    const wrong = await ask(app, JSON.stringify(question(app)), { "content-type": "text/plain" });
    expect(errorOf(wrong)).toBe("400 invalid_request");
    const keyless = await world.api.client().post("/access/v1/evaluation", question(app), { csrf: false });
    expect(errorOf(keyless)).toBe("401 invalid_api_key");
    const answer = await ask(app, question(app), { "X-Request-ID": "bfe9eb29-ab87-4ca3-be83-a1d5d8305716" });
    expect(answer.headers.get("x-request-id")).toBe("bfe9eb29-ab87-4ca3-be83-a1d5d8305716");
  });

  describe("signs in with Authorization", () => {
    // The OpenID Foundation's Kong and Tyk plugins, its Envoy authorizer and both of its test runners send
    // the configured text as it is. Their published results used the bare key, Bearer and Basic.
    const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString("base64")}`;
    const forms: [string, (key: string) => string][] = [
      ["the bare key", (key) => key],
      ["Bearer", (key) => `Bearer ${key}`],
      ["Bearer in lower case", (key) => `bearer ${key}`],
      ["Basic with the bare key", (key) => `Basic ${key}`],
      ["basic in lower case", (key) => `basic ${key}`],
      ["Basic with the key as password", (key) => basic(`pdp:${key}`)],
      ["Basic with the key as user name", (key) => basic(`${key}:`)],
    ];
    const signedIn = (path: string, body: unknown, authorization: string, key?: string) =>
      world.api.client().post(path, body, {
        headers: { authorization, ...(key === undefined ? {} : { "x-service-api-key": key }) },
        csrf: false,
      });

    test.each(forms)("as %s, for one question and for several", async (_, form) => {
      const app = await registryApplication(world);
      const authorization = form(app.platform.apiKey);
      const one = await signedIn("/access/v1/evaluation", question(app), authorization);
      expect(one).toMatchObject({ status: 200, body: { decision: true } });
      const body = { evaluations: [question(app)] };
      const several = await signedIn("/access/v1/evaluations", body, authorization);
      expect(several).toMatchObject({ status: 200, body: { evaluations: [{ decision: true }] } });
    });

    test.each(forms)("as %s at these two paths only", async (_, form) => {
      const app = await world.application();
      const authorization = form(app.platform.apiKey);
      for (const path of [
        "/v1/service/challenge",
        "/v1/service/verify",
        "/v1/service/delegations/self-request",
      ])
        expect((await signedIn(path, {}, authorization)).status).toBe(401);
    });

    test.each([
      ["no key", ""],
      ["another scheme", "Digest KEY"],
      ["two keys", "Bearer KEY KEY"],
      ["a key beside other credentials", "Bearer x, Bearer KEY"],
      ["Basic without a key", basic(":")],
    ])("fails with %s, and the answer names the credentials", async (_, text) => {
      const app = await world.application();
      const answer = await signedIn(
        "/access/v1/evaluation",
        question(app),
        text.replaceAll("KEY", app.platform.apiKey),
      );
      expect(errorOf(answer)).toBe("401 invalid_api_key");
      expect(answer.headers.get("www-authenticate")).toBe(
        'ApiKey realm="service", header="X-Service-API-Key", Bearer realm="service"',
      );
    });

    test("only if X-Service-API-Key is absent", async () => {
      const app = await registryApplication(world);
      const { apiKey } = app.platform;
      const ask = (authorization: string, key: string) =>
        signedIn("/access/v1/evaluation", question(app), authorization, key);
      expect((await ask("Bearer of-a-proxy", apiKey)).body.decision).toBe(true);
      expect(errorOf(await ask(`Bearer ${apiKey}`, "unknown"))).toBe("401 invalid_api_key");
    });
  });

  test("may contain unknown properties and members", async () => {
    const app = await registryApplication(world);
    const properties = { department: "sales", nested: { list: [1, 2.5, null] } };
    const body = question(app, {
      subject: { type: "agent", id: app.agentId, properties },
      extra: 1,
      context: { time: "2026-05-01T10:00Z" },
    });
    expect((await ask(app, body)).body.decision).toBe(true);
  });
});

describe("the API with a path in its base URL", () => {
  const served = async (baseUrl: string, path: string) => {
    const api = await startApi({ shares: world.api, config: { BASE_URL: baseUrl } });
    const answer = await api.client().get(path);
    await api.stop();
    return answer;
  };

  test.each([
    ["at AuthZEN's standard location between host and path", "/.well-known/authzen-configuration/eu/pdp"],
    ["behind a proxy that strips the path", "/.well-known/authzen-configuration"],
    ["behind a proxy that keeps the path", "/eu/pdp/.well-known/authzen-configuration"],
  ])("serves the AuthZEN metadata %s", async (_, path) => {
    for (const [baseUrl, slash] of [
      ["https://h.example/eu/pdp", ""],
      ["https://h.example/eu/pdp/", "/"],
    ] as const) {
      const answer = await served(baseUrl, path);
      expect([baseUrl, answer.status, answer.body]).toEqual([
        baseUrl,
        200,
        {
          policy_decision_point: `https://h.example/eu/pdp${slash}`,
          access_evaluation_endpoint: "https://h.example/eu/pdp/access/v1/evaluation",
          access_evaluations_endpoint: "https://h.example/eu/pdp/access/v1/evaluations",
          access_request_endpoint: "https://h.example/eu/pdp/v1/service/access-requests",
        },
      ]);
    }
  });

  test("serves the AuthZEN metadata at no other path", async () => {
    for (const path of [
      "/.well-known/authzen-configuration/eu",
      "/.well-known/authzen-configuration/eu/pdp/x",
      "/eu/.well-known/authzen-configuration",
    ]) {
      expect((await served("https://h.example/eu/pdp", path)).status).toBe(404);
    }
    const bare = await served("https://h.example/", "/.well-known/authzen-configuration/");
    expect(bare.status).toBe(404);
  });
});

test("the AuthZEN metadata contains the configured base URL exactly as written, whatever the request's host", async () => {
  const answer = await world.api.client().get("/.well-known/authzen-configuration", {
    headers: { host: "evil.example", "x-forwarded-host": "evil.example" },
  });
  expect(answer.body).toEqual({
    policy_decision_point: "http://127.0.0.1",
    access_evaluation_endpoint: "http://127.0.0.1/access/v1/evaluation",
    access_evaluations_endpoint: "http://127.0.0.1/access/v1/evaluations",
    access_request_endpoint: "http://127.0.0.1/v1/service/access-requests",
  });
});
