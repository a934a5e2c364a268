import { request } from "node:http";
import { describe, expect, test } from "vitest";
import type { HttpAnswer } from "../support/http.ts";
import { type Application, answerFromRegistry, certify, errorOf, proofApi } from "./application.ts";
import { BOUND_SCOPE, decide, operationOf, prove, type Wish } from "./bound_operations.ts";
import { question } from "./questions.ts";

const world = proofApi();

const LIMIT = { type: "resource_path", resource_id: "public", path_prefix: "/pub" };
const SECRET = { resource_id: "secret-db", requested_path: "/admin/all" };
const OPEN = { resource_id: "public", requested_path: "/pub/x" };

/** An application whose agent may act only on `/pub` of the resource `public`. */
async function limitedApp(): Promise<Application> {
  const app = await world.application([]);
  await certify(app, [BOUND_SCOPE], { constraints: [LIMIT] });
  return app;
}

const ask = (app: Application, context: object): Promise<HttpAnswer> =>
  app.post("/access/v1/evaluation", question(app, { action: { name: BOUND_SCOPE }, context }));

describe("the operation and the context of one verify call", () => {
  test("answers 400 if the context names another resource or path than the proof's operation, and spends nothing", async () => {
    const app = await limitedApp();
    const operation = operationOf(app, SECRET);
    const proof = await prove(app, operation);
    for (const context of [
      { resource_id: "public", path: "/pub/x" },
      { resource_id: "public" },
      { path: "/pub/x" },
      { path: "" },
    ]) {
      expect(errorOf(await decide(app, proof, operation, { context }))).toBe("400 invalid_request");
    }
    const { body } = await decide(app, proof, operation);
    expect(body).toMatchObject({ decision: "deny", decision_reason: "constraint_denied" });
  });

  test("answers 400 to a resource or path if the operation has none", async () => {
    const app = await limitedApp();
    const operation = operationOf(app, { resource_id: "", requested_path: "" });
    const proof = await prove(app, operation);
    for (const context of [{ resource_id: "public" }, { path: "/pub/x" }]) {
      expect(errorOf(await decide(app, proof, operation, { context }))).toBe("400 invalid_request");
    }
    const { body } = await decide(app, proof, operation);
    expect(body).toMatchObject({ decision: "deny", decision_reason: "constraint_unverifiable" });
  });

  test.each([
    ["no context", OPEN, undefined],
    ["the same values", OPEN, { resource_id: "public", path: "/pub/x" }],
    ["a path with a query", { ...OPEN, requested_path: "/pub?q=/../" }, undefined],
    ["its path without the query", { ...OPEN, requested_path: "/pub/x?q=1" }, { path: "/pub/x" }],
    ["its path with the query", { ...OPEN, requested_path: "/pub/x?q=1" }, { path: "/pub/x?q=1" }],
  ])("compares the operation's resource and path with constraints: %s", async (_, place, context) => {
    const app = await limitedApp();
    const operation = operationOf(app, place);
    const { body } = await decide(app, await prove(app, operation), operation, { context });
    expect(body).toMatchObject({ decision: "allow" });
  });

  test("answers a repeated call with the same decision, whether or not it repeats resource and path", async () => {
    const app = await limitedApp();
    const operation = operationOf(app, OPEN);
    const context = { resource_id: "public", path: "/pub/x" };
    await decide(app, await prove(app, operation), operation);
    const again = await decide(app, await prove(app, operation), operation, { context });
    expect(again.body).toMatchObject({ decision: "allow", replayed: true });
  });

  test("answers 400 to a path that hides a dot segment, in the operation or in the context", async () => {
    const app = await limitedApp();
    const operation = operationOf(app, { ...OPEN, requested_path: "/pub/%2e%2e/admin?q=1" });
    const answer = await decide(app, await prove(app, operation), operation);
    expect(errorOf(answer)).toBe("400 invalid_request");
    expect(answer.text).toContain("operation.requested_path");
    const { body } = await app.present();
    for (const path of ["/pub/..%2fadmin", "/pub/..;/admin"]) {
      const context = { resource_id: "public", path };
      const fields = { required_scope: BOUND_SCOPE, context };
      expect(errorOf(await app.verify(body.proof_bundle, fields))).toBe("400 invalid_request");
    }
  });

  test("answers 400 to a negative amount", async () => {
    const app = await world.application();
    const { body } = await app.present();
    const context = { amount: -0.01, currency: "USD" };
    expect(errorOf(await app.verify(body.proof_bundle, { context }))).toBe("400 invalid_request");
    expect((await app.verify(body.proof_bundle, { context: { amount: 0 } })).body.decision).toBe("allow");
  });
});

describe("an AuthZEN question", () => {
  const facts = { resource_id: "public", path: "/pub/x" };

  test.each([true, false])(
    "gets 400 if its context differs from its operation (proof: %s)",
    async (isProved) => {
      const app = await limitedApp();
      await answerFromRegistry(app);
      const operation = operationOf(app, SECRET);
      const proof: object = isProved ? { proof_bundle: await prove(app, operation) } : {};
      const answer = await ask(app, { ...proof, operation, ...facts });
      expect(errorOf(answer)).toBe("400 invalid_request");
      expect(answer.text).toContain("context.resource_id: differs from context.operation.resource_id");
      const { body } = await ask(app, { ...proof, operation });
      expect(body).toMatchObject({ decision: false, context: { reason: "constraint_denied" } });
    },
  );

  test("gets 400 for a negative amount and for a path that hides a dot segment", async () => {
    const app = await limitedApp();
    for (const context of [
      { ...facts, amount: -1, currency: "USD" },
      { ...facts, path: "/pub/%2e%2e/admin" },
    ]) {
      const proof_bundle = await app.proof();
      expect(errorOf(await ask(app, { proof_bundle, ...context }))).toBe("400 invalid_request");
    }
  });
});

describe("the gateways' hook", () => {
  /** Sends a path exactly as written: `fetch` would resolve dot segments first. */
  function statusOf(path: string, headers: Wish): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const asked = request(new URL(world.api.url), { path, headers, agent: false }, (answer) => {
        answer.resume().once("end", () => resolve(answer.statusCode));
      });
      asked.once("error", reject).end();
    });
  }

  test.each(["../payments:send", "%2e%2e/payments:send", "..%2fpayments:send", "..;/payments:send"])(
    "takes the scope that the gateway wrote, whatever the appended path is: %s",
    async (rest) => {
      const app = await world.application(["payments:send"]);
      const headers = {
        "x-service-api-key": app.platform.apiKey,
        "x-service-proof": String((await app.present()).body.proof_ref),
      };
      expect(await statusOf(`/v1/service/ext-auth/data:read/${rest}`, headers)).toBe(403);
      expect(await statusOf("/v1/service/ext-auth/payments:send/x", headers)).toBe(403);
      const fresh = { ...headers, "x-service-proof": String((await app.present()).body.proof_ref) };
      expect(await statusOf("/v1/service/ext-auth/payments:send/x", fresh)).toBe(200);
    },
  );
});
