import { describe, expect, test } from "vitest";
import type { RefusingReason } from "../../../src/proofs/decide/reasons.ts";
import type { HttpAnswer } from "../../support/http.ts";
import {
  type Application,
  answerFromRegistry,
  certify,
  decisionsOf,
  proofApi,
  registryApplication,
} from "../application.ts";
import { question } from "../questions.ts";

const world = proofApi();

const ask = (app: Application, body: unknown): Promise<HttpAnswer> =>
  world.api.client().post("/access/v1/evaluation", body, {
    headers: { "x-service-api-key": app.platform.apiKey },
    csrf: false,
  });

type Changes = Record<string, unknown>;

/**
 * A function that creates the situation for each reason and returns the changes to make in the question.
 * `null`: only a proof can lead to the reason. The registry answers only about the account's own active
 * certificates.
 */
const ARRANGED: Record<RefusingReason, ((app: Application) => Promise<Changes>) | null> = {
  delegation_revoked: async ({ person, certId }) => {
    await person.client.post(`/v1/service/delegations/${certId}/revoke`, {});
    return {};
  },
  delegation_expired: async ({ certId }) => {
    await world.api
      .db("certificates")
      .where({ cert_id: certId })
      .update({ expires_at: world.api.clock.now() });
    world.api.clock.advance(1);
    return {};
  },
  not_delegated: async () => ({ action: { name: "data:share" } }),
  ceiling_exceeded: async ({ certId }) => {
    await world.api
      .db("certificates")
      .where({ cert_id: certId })
      .update({ ceiling_scope: ["data:share"] });
    return {};
  },
  constraint_denied: (app) => constrain(app, { type: "max_amount", max_amount: 10, currency: "USD" }, 500),
  constraint_unverifiable: (app) => constrain(app, { type: "max_amount", max_amount: 10, currency: "USD" }),
  constraint_unknown: null,
  untrusted_root: null,
  principal_not_accepted: null,
  not_yet_valid: null,
  delegation_not_authorized: null,
  revocation_state_unavailable: null,
};

/** Gives the agent only a certificate with this constraint. Returns the question's changes for the amount. */
async function constrain(app: Application, constraint: object, amount?: number): Promise<Changes> {
  await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
  await certify(app, ["data:read"], { constraints: [constraint] });
  return amount === undefined ? {} : { context: { amount, currency: "USD" } };
}

describe("an AuthZEN question without a proof", () => {
  test("gets false unless the connection has enabled registry answers", async () => {
    const app = await world.application();
    const required = { decision: false, context: { reason: "proof_required" } };
    expect((await ask(app, question(app))).body).toEqual(required);
    await answerFromRegistry(app);
    expect((await ask(app, question(app))).body.decision).toBe(true);
    await answerFromRegistry(app, false);
    expect((await ask(app, question(app))).body).toEqual(required);
    expect(await decisionsOf(world, app)).toBe(0);
  });

  test("gets the same answer from the registry repeatedly, without charge", async () => {
    const app = await registryApplication(world);
    for (let time = 0; time < 2; time += 1) {
      expect((await ask(app, question(app))).body).toEqual({
        decision: true,
        context: { assurance: "registry", reason: "authorized", cert_id: app.certId },
      });
    }
    expect(await decisionsOf(world, app)).toBe(0);
  });

  test.each(Object.entries(ARRANGED).flatMap(([reason, arrange]) => (arrange ? [{ reason, arrange }] : [])))(
    "gets false if a proof would be denied as $reason",
    async ({ reason, arrange }) => {
      const app = await registryApplication(world);
      const { body } = await ask(app, question(app, await arrange(app)));
      const expected = reason.startsWith("constraint_") ? reason : "not_delegated";
      expect(body).toEqual({ decision: false, context: { assurance: "registry", reason: expected } });
    },
  );

  test("gets true until the last second in which the certificate is valid", async () => {
    const app = await registryApplication(world, []);
    await certify(app, ["data:read"], { expires_in: 60 });
    world.api.clock.advance(60);
    expect((await ask(app, question(app))).body.decision).toBe(true);
    world.api.clock.advance(1);
    expect((await ask(app, question(app))).body.decision).toBe(false);
  });

  test("gets false for an unknown scope, an unknown agent and a deleted agent", async () => {
    const app = await registryApplication(world);
    const answer = async (changes = {}) => (await ask(app, question(app, changes))).body;
    const denied = { decision: false, context: { assurance: "registry", reason: "not_delegated" } };
    expect(await answer({ action: { name: "no such scope" } })).toEqual(denied);
    expect(await answer({ subject: { type: "agent", id: "\u0001" } })).toEqual(denied);
    const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}`;
    await app.person.client.call("DELETE", path);
    expect(await answer()).toEqual(denied);
  });

  test("gets false for an agent of a different connection, even if the agent is allowed at the agent's own connection", async () => {
    const [app, other] = [await registryApplication(world), await registryApplication(world)];
    const denied = { decision: false, context: { assurance: "registry", reason: "not_delegated" } };
    const foreign = question(app, { subject: { type: "agent", id: other.agentId } });
    expect((await ask(other, question(other))).body.decision).toBe(true);
    expect((await ask(app, foreign)).body).toEqual(denied);
  });

  test("gets the id of the newest certificate whose constraints are met", async () => {
    const app = await registryApplication(world, []);
    const limit = (max_amount: number) => [{ type: "max_amount", max_amount, currency: "USD" }];
    await certify(app, ["data:read"], { constraints: limit(100) });
    await certify(app, ["data:read"], { constraints: limit(10) });
    const asked = async (context: object) => (await ask(app, question(app, { context }))).body;
    expect(await asked({ amount: 50, currency: "USD" })).toMatchObject({ decision: true });
    expect(await asked({ amount: 500, currency: "USD" })).toMatchObject({
      decision: false,
      context: { reason: "constraint_denied" },
    });
    expect(await asked({})).toMatchObject({
      decision: false,
      context: { reason: "constraint_unverifiable" },
    });
  });

  test("gets an answer that considers earlier uses of a certificate with a rate limit", async () => {
    const app = await registryApplication(world, []);
    await certify(app, ["data:read"], { constraints: [{ type: "max_rate", count: 1, window_s: 60 }] });
    expect((await ask(app, question(app))).body.decision).toBe(true);
    await app.verify(await app.proof());
    expect((await ask(app, question(app))).body).toMatchObject({
      decision: false,
      context: { reason: "constraint_denied" },
    });
  });
});
