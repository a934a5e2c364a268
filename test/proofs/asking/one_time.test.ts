import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHALLENGE_BYTES } from "../../../src/proofs/present/challenge.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { approve } from "../../support/platform_world.ts";
import { answerFromRegistry, callsOf, certify, errorOf, proofApi } from "../application.ts";
import { decide, operationOf, BOUND_SCOPE as SCOPE, type Wish } from "../bound_operations.ts";
import { formerVerdict } from "../former_verdict.ts";
import { type AskingAgent, askingAgent, evaluationOf, taskOf } from "./asking.ts";

const world = proofApi();
/** Another process with the same database. */
let replica: TestApi;
beforeAll(async () => {
  replica = await startApi({ shares: world.api });
});
afterAll(() => replica.stop());

/** A repetition of the refused action, which is another invocation. */
const again = (operation: Wish): Wish => ({ ...operation, invocation_id: crypto.randomUUID() });
const presented = (app: AskingAgent, operation: Wish, fields = {}) =>
  app.present({ operation, required_scope: SCOPE, ...fields });
const proofFor = async (app: AskingAgent, operation: Wish) =>
  (await presented(app, operation)).body.proof_bundle;
const onceOf = (app: AskingAgent, id: string, fields = {}, scope = [SCOPE]) =>
  approve(app.person, id, scope, { once: true, ...fields });

async function asked(app: AskingAgent, operation: Wish, fields = {}) {
  return taskOf(await app.ask(await app.refused(operation), fields)).id;
}

/** An agent whose person approved the operation for one time. */
async function approvedOnce() {
  const app = await askingAgent(world);
  const operation = operationOf(app);
  const { status, body } = await onceOf(app, await asked(app, operation));
  expect(status).toBe(200);
  return { app, operation, approval: body, certId: String(body.cert_id) };
}

describe("an approval for one time", () => {
  test("lasts ten minutes, and allows the refused action once", async () => {
    const { app, operation, approval } = await approvedOnce();
    const lasts = Date.parse(String(approval.expires_at)) - world.api.clock.now().getTime();
    expect(lasts).toBeGreaterThan(598_000);
    expect(lasts).toBeLessThanOrEqual(600_000);
    const proof = await proofFor(app, operation);
    expect((await decide(app, proof, operation)).body.decision).toBe("allow");
    const next = await presented(app, again(operation));
    expect(errorOf(next)).toBe("404 no_active_delegation");
    expect(next.body).toHaveProperty("access_request");
  });

  test("allows one of several proofs that two processes decide at the same time", async () => {
    const { app, operation } = await approvedOnce();
    const operations = [1, 2, 3, 4].map(() => again(operation));
    const proofs = await Promise.all(operations.map((each) => proofFor(app, each)));
    const there = { ...app, ...callsOf(replica.client(), app.platform, app.agentId) };
    const answers = await Promise.all(
      operations.map((each, n) => decide(n % 2 === 0 ? app : there, proofs[n], each)),
    );
    expect(answers.map(({ body }) => String(body.decision_reason)).sort()).toEqual([
      "authorized",
      ...["constraint_denied", "constraint_denied", "constraint_denied"],
    ]);
  });

  test("does not let the agent present any other action, unbound proof or verifier", async () => {
    const { app, operation, certId } = await approvedOnce();
    const other = await askingAgent(world);
    const elsewhere = {
      ...again(operation),
      verifier_id: other.platform.connectionId,
      workspace_id: other.person.accountId,
    };
    const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/present`;
    const answers = [
      await presented(app, operationOf(app, { resource_id: "order-8" })),
      await presented(app, operationOf(app, { resource_id: "order-8" }), { cert_id: certId }),
      await app.present({ required_scope: SCOPE }),
      await app.present({ cert_id: certId }),
      await app.post(path, { operation: elsewhere, required_scope: SCOPE }),
    ];
    expect(new Set(answers.map(errorOf))).toEqual(new Set(["404 no_active_delegation"]));
    expect((await presented(app, again(operation))).status).toBe(200);
  });

  test("does not count for a proof of any other action, in verify, AuthZEN and the hook", async () => {
    const { app, operation, certId } = await approvedOnce();
    const proofs = [await proofFor(app, operation), await proofFor(app, again(operation))];
    const own = world.api.db("certificates").where({ cert_id: certId });
    const [row] = await own.clone().select("only_action", "cert_json");
    // The vault signs no such proofs, so the certificate becomes that of another action.
    await own.clone().update({ only_action: Buffer.alloc(32) });
    expect((await decide(app, proofs[0], operation)).body).toMatchObject({
      decision: "deny",
      decision_reason: "not_delegated",
      granted_scope: [],
      access_request: { endpoint: expect.any(String) },
    });
    await own.clone().update({ only_action: null });
    const unbound = async () => (await app.present({ cert_id: certId })).body;
    const [first, second] = [await unbound(), await unbound()];
    await own.clone().update({ only_action: row?.only_action ?? null });
    const authzen = await app.post("/access/v1/evaluation", {
      subject: { type: "agent", id: app.agentId },
      action: { name: SCOPE },
      resource: { type: "connection", id: app.platform.connectionId },
      context: { proof_bundle: first.proof_bundle },
    });
    expect(authzen.body).toMatchObject({ decision: false, context: { reason: "not_delegated" } });
    const hook = await app.post(`/v1/service/ext-auth/${SCOPE}`, undefined, {
      "x-service-proof": String(second.proof_ref),
    });
    expect([hook.status, hook.body]).toEqual([403, { decision: "deny", decision_reason: "not_delegated" }]);
  });

  test("does not count at a process of the former version, which would accept any action", async () => {
    const { app, certId } = await approvedOnce();
    const at = { connectionId: app.platform.connectionId, accountId: app.person.accountId };
    const verdict = await formerVerdict(world.api.db, { certId, scope: SCOPE, at });
    expect(verdict).toBe("deny ceiling_exceeded");
  });

  test("answers no question without a proof", async () => {
    const { app } = await approvedOnce();
    await answerFromRegistry(app);
    const { body } = await app.post("/access/v1/evaluation", {
      subject: { type: "agent", id: app.agentId },
      action: { name: SCOPE },
      resource: { type: "connection", id: app.platform.connectionId },
    });
    expect(body).toMatchObject({ decision: false, context: { reason: "not_delegated" } });
  });

  test("leaves other authority of the agent as it is", async () => {
    const { app, operation } = await approvedOnce();
    await certify(app, [SCOPE]);
    const [one, two] = [again(operation), again(operation)];
    for (const each of [operation, one, two]) {
      expect((await decide(app, await proofFor(app, each), each)).body.decision).toBe("allow");
    }
    const other = operationOf(app, { resource_id: "order-8" });
    expect((await decide(app, await proofFor(app, other), other)).body.decision).toBe("allow");
  });

  test("cannot allow values that the hash of the action does not cover, such as an amount", async () => {
    const app = await askingAgent(world);
    await certify(app, [SCOPE], { constraints: [{ type: "max_amount", max_amount: 5, currency: "EUR" }] });
    const operation = operationOf(app);
    const context = { amount: 6, currency: "EUR" };
    const denied = await decide(app, await proofFor(app, operation), operation, { context });
    const { id } = taskOf(await app.ask(evaluationOf(denied), { context: { operation } }));
    const shown = await app.person.client.get(`/v1/service/delegations/requests/${id}`);
    expect(shown.body.refusal).toMatchObject({ reason: "constraint_denied", allows_once: false });
    expect(errorOf(await onceOf(app, id))).toBe("400 invalid_request");
  });

  test("cannot be given for a verifier outside this service, which could accept several proofs", async () => {
    const app = await askingAgent(world);
    await world.api
      .db("connections")
      .where({ connection_id: app.platform.connectionId })
      .update({ outside_verifiers: ["ext"] });
    const operation = operationOf(app, { verifier_id: "ext", workspace_id: "ext" });
    expect(errorOf(await onceOf(app, await asked(app, operation)))).toBe("400 invalid_request");
  });

  test("gives no proof for the challenge of an outside verifier that has the name of an own one", async () => {
    const { app, operation } = await approvedOnce();
    await world.api
      .db("connections")
      .where({ connection_id: app.platform.connectionId })
      .update({ outside_verifiers: [String(operation.verifier_id)] });
    const challenge = randomBytes(CHALLENGE_BYTES).toString("base64");
    expect(errorOf(await presented(app, operation, { challenge }))).toBe("404 no_active_delegation");
    await certify(app, [SCOPE]);
    expect((await presented(app, operation, { challenge })).status).toBe(200);
    const own = (await app.post("/v1/service/challenge")).body.challenge;
    expect((await presented(app, operation, { challenge: own })).status).toBe(200);
  });

  test("needs a known action, its one scope, and no end or second delegation of its own", async () => {
    const app = await askingAgent(world);
    const id = await asked(app, operationOf(app), { scopes: [SCOPE, "data:share"] });
    const unknown = taskOf(
      await app.ask(String((await app.present({ required_scope: SCOPE })).body.evaluation_id)),
    );
    const limit = [{ type: "max_amount", max_amount: 5, currency: "EUR" }];
    const errors = [
      await onceOf(app, id, {}, [SCOPE, "data:share"]),
      await onceOf(app, id, {}, ["data:share"]),
      await onceOf(app, id, { expires_in: 60 }),
      await onceOf(app, id, { separate_scope: ["data:share"], constraints: limit }),
      await onceOf(app, unknown.id),
    ].map(errorOf);
    expect(errors).toEqual([
      ...["400 scope_not_requested", "400 scope_not_requested", "400 invalid_expiry"],
      ...["400 invalid_request", "400 invalid_request"],
    ]);
    const path = `/v1/service/delegations/requests/${id}/preview?approved_scope=${SCOPE}&once=true`;
    const { body } = await app.person.client.get(path);
    expect(body.constraints).toEqual([{ type: "max_rate", count: 1, window_s: 1_200 }]);
    expect((await onceOf(app, id)).status).toBe(200);
  });
});
