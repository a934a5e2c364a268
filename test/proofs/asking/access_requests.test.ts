import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { newRequestId } from "../../../src/ids.ts";
import { createDecisionWaits } from "../../../src/proofs/asking/waits.ts";
import { addMember } from "../../support/members.ts";
import { approve, copyRequest } from "../../support/platform_world.ts";
import { certify, errorOf, proofApi } from "../application.ts";
import { operationOf, BOUND_SCOPE as SCOPE } from "../bound_operations.ts";
import {
  ASKING,
  type AskingAgent,
  askingAgent,
  evaluationOf,
  otherAgent,
  resultOf,
  taskOf,
  withPayload,
} from "./asking.ts";

const world = proofApi();

const deny = ({ person }: AskingAgent, id: string) =>
  person.client.post(`/v1/service/delegations/requests/${id}/deny`, {});
const rowOf = (id: string) => world.api.db("delegation_requests").where({ request_id: id }).first();
const rows = async ({ agentId }: AskingAgent) =>
  (await world.api.db("delegation_requests").where({ agent_id: agentId })).length;

/** The name of a verifier that needs the most bytes. */
const LONG = "\u4e00".repeat(512);

/** Lets `verify` deny the agent the scope, with a proof that is bound to nothing. */
async function denied(app: AskingAgent, fields = {}) {
  return app.verify(await app.proof(), { required_scope: SCOPE, ...fields });
}

describe("a refusal that an approval could resolve", () => {
  test("names itself and the endpoint in the answer of verify", async () => {
    const app = await askingAgent(world);
    const { body } = await denied(app);
    const { receipt_id, verified_at } = body.receipt as Record<string, string>;
    expect(body).toMatchObject({
      decision: "deny",
      evaluation_id: receipt_id,
      access_request: {
        endpoint: `http://127.0.0.1${ASKING}`,
        expires_at: addSeconds(new Date(verified_at ?? ""), 3_600).toISOString(),
      },
    });
  });

  test("does so in the context of an AuthZEN answer, and the metadata has the same endpoint", async () => {
    const app = await askingAgent(world);
    const { body } = await app.post("/access/v1/evaluation", {
      subject: { type: "agent", id: app.agentId },
      action: { name: SCOPE },
      resource: { type: "connection", id: app.platform.connectionId },
      context: { proof_bundle: await app.proof() },
    });
    const context = body.context as Record<string, string>;
    expect(context).toMatchObject({
      evaluation_id: context.receipt_id,
      access_request: { endpoint: expect.stringContaining(ASKING) },
    });
    const metadata = await world.api.client().get("/.well-known/authzen-configuration");
    expect(metadata.body.access_request_endpoint).toBe(`http://127.0.0.1${ASKING}`);
    expect(errorOf(await app.ask(context.evaluation_id ?? ""))).toBe("202 undefined");
  });

  test("does so in the body of a present call without a certificate, and stores nothing", async () => {
    const app = await askingAgent(world);
    const before = await world.api.db("audit_events").where({ account_id: app.person.accountId });
    const answer = await app.present({ required_scope: SCOPE });
    expect(errorOf(answer)).toBe("404 no_active_delegation");
    expect(answer.body.access_request).toMatchObject({ endpoint: expect.stringContaining(ASKING) });
    const after = await world.api.db("audit_events").where({ account_id: app.person.accountId });
    expect([after.length, await rows(app)]).toEqual([before.length, 1]);
  });

  test("does not do so if the call chose a certificate, which says nothing about what the agent lacks", async () => {
    const app = await askingAgent(world);
    const refused = await app.present({ cert_id: "cert-none", required_scope: "data:read" });
    expect(errorOf(refused)).toBe("404 no_active_delegation");
    expect(refused.body).not.toHaveProperty("evaluation_id");
  });

  test("does not do so for an allow, without a scope, or if no approval helps", async () => {
    const [app, shop] = [await askingAgent(world), await askingAgent(world)];
    const verifier_connection_id = shop.platform.connectionId;
    const { body } = await shop.post("/v1/service/challenge");
    const wish = { challenge: body.challenge, verifier_connection_id };
    const decided = await shop.verify((await app.present(wish)).body.proof_bundle);
    expect(decided.body.decision_reason).toBe("principal_not_accepted");
    const chosen = [{ cert_id: "unknown" }, { cert_id: "unknown", required_scope: "data:read" }];
    const refused = await Promise.all(chosen.map((each) => app.present(each)));
    expect(refused.map(errorOf)).toEqual(["404 no_active_delegation", "404 no_active_delegation"]);
    const answers = [decided, await app.verify(await app.proof()), ...refused];
    for (const { body } of answers) expect(body).not.toHaveProperty("access_request");
  });
});

describe("an agent that asks", () => {
  test("gets a task, and a person finds an ordinary request with the refusal", async () => {
    const app = await askingAgent(world);
    const payload = { amount: 5, currency: "EUR", to: "bob" };
    const operation = withPayload(app, payload);
    const until = addSeconds(world.api.clock.now(), 86_400).toISOString();
    const answer = await app.ask(await app.refused(operation), { until, context: { operation, payload } });
    const task = taskOf(answer);
    expect(answer.status).toBe(202);
    expect(task).toMatchObject({
      status: "pending",
      status_endpoint: `http://127.0.0.1${ASKING}/${task.id}?wait=10`,
      links: {
        console: `http://127.0.0.1/console/for/${app.person.accountId}/requests/${task.id}`,
        cancel: `http://127.0.0.1${ASKING}/${task.id}/cancel`,
      },
    });
    expect(await rowOf(task.id)).toMatchObject({
      status: "pending",
      requested_scope: [SCOPE],
      purpose: "Refund order 7",
      requested_by: null,
      refusal: {
        reason: "no_active_delegation",
        required_scope: SCOPE,
        verifier: { platform_name: "Shop" },
        operation: {
          action: "refund",
          resource_id: "order-7",
          payload: '{"amount":5,"currency":"EUR","to":"bob"}',
        },
      },
    });
  });

  test("lets the person read which application refused, also if the agent answered only a challenge", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(evaluationOf(await app.present({ required_scope: SCOPE }))));
    expect(await rowOf(id)).toMatchObject({
      refusal: { verifier: { platform_name: "Shop", same_account: true } },
      refused_action: null,
    });
  });

  test("reads each state, and after an approval the certificate and its scopes", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(evaluationOf(await denied(app)), { scopes: [SCOPE, "data:share"] }));
    const read = () => app.asAgent("GET", `${ASKING}/${id}`);
    const pending = await read();
    expect([taskOf(pending).status, pending.headers.get("retry-after")]).toEqual(["pending", "5"]);
    const { body } = await approve(app.person, id, [SCOPE], { expires_in: 60 });
    const approved = await read();
    expect([taskOf(approved).status, approved.headers.get("retry-after")]).toEqual(["approved", null]);
    expect(resultOf(approved)?.approval).toEqual({
      id: body.cert_id,
      approved_until: body.expires_at,
      scopes: [SCOPE],
    });
    expect((await app.present({ required_scope: SCOPE })).status).toBe(200);
  });

  test("waits for the decision, and gets it soon", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(await app.refused()));
    const waiting = app.asAgent("GET", `${ASKING}/${id}?wait=10`);
    await deny(app, id);
    expect(taskOf(await waiting).status).toBe("denied");
  });

  test("gets an immediate answer while two of its calls wait", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(await app.refused()));
    const calls = [1, 2, 3].map(() => app.asAgent("GET", `${ASKING}/${id}?wait=10`));
    expect(taskOf(await Promise.race(calls)).status).toBe("pending");
    await app.asAgent("POST", `${ASKING}/${id}/cancel`);
    const states = (await Promise.all(calls)).map((each) => taskOf(each).status);
    expect(states.sort()).toEqual(["cancelled", "cancelled", "pending"]);
  });

  test("keeps the payload only until the request is decided", async () => {
    const decide = {
      approved: (app: AskingAgent, id: string) => approve(app.person, id, [SCOPE], { once: true }),
      denied: deny,
      withdrawn: (app: AskingAgent, id: string) => app.asAgent("POST", `${ASKING}/${id}/cancel`),
    };
    for (const [status, end] of Object.entries(decide)) {
      const app = await askingAgent(world);
      const payload = { to: "bob" };
      const operation = withPayload(app, payload);
      const { id } = taskOf(await app.ask(await app.refused(operation), { context: { operation, payload } }));
      expect((await rowOf(id))?.refusal?.operation?.payload).toBe('{"to":"bob"}');
      expect((await end(app, id)).status).toBe(200);
      const row = await rowOf(id);
      expect([row?.status, row?.refusal?.operation]).toEqual([
        status,
        { action: "refund", resource_id: "order-7", requested_path: expect.any(String), with_payload: true },
      ]);
    }
  });

  test("cancels a pending request only", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(await app.refused()));
    const cancel = () => app.asAgent("POST", `${ASKING}/${id}/cancel`);
    expect(taskOf(await cancel())).toMatchObject({ status: "cancelled", links: {} });
    expect(errorOf(await cancel())).toBe("409 request_not_pending");
  });

  test("sees an expired request as expired", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(await app.refused()));
    await world.api
      .db("delegation_requests")
      .where({ request_id: id })
      .update({ expires_at: new Date(0) });
    expect(taskOf(await app.asAgent("GET", `${ASKING}/${id}?wait=10`)).status).toBe("expired");
  });

  test("gets its pending request for the same scopes again, also from two calls at the same time", async () => {
    const app = await askingAgent(world);
    const evaluation = await app.refused();
    const answers = await Promise.all([app.ask(evaluation), app.ask(evaluation)]);
    const again = await app.ask(await app.refused());
    expect(new Set([...answers, again].map((each) => taskOf(each).id)).size).toBe(1);
    const wider = await app.ask(evaluation, { scopes: ["data:share", SCOPE] });
    const same = await app.ask(evaluation, { scopes: [SCOPE, "data:share"] });
    expect(taskOf(same).id).toBe(taskOf(wider).id);
    expect(taskOf(wider).id).not.toBe(taskOf(again).id);
  });

  test("gets another request for another action with the same scopes", async () => {
    const app = await askingAgent(world);
    const other = await app.refused(operationOf(app, { resource_id: "order-8" }));
    const unbound = evaluationOf(await denied(app));
    const tasks = [await app.ask(await app.refused()), await app.ask(other), await app.ask(unbound)].map(
      taskOf,
    );
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(3);
    expect(taskOf(await app.ask(other)).id).toBe(tasks[1]?.id);
  });

  test("can ask about every refusal that the service names, however long the action's names", async () => {
    const app = await askingAgent(world);
    await world.api
      .db("connections")
      .where({ connection_id: app.platform.connectionId })
      .update({ outside_verifiers: [LONG] });
    const operation = operationOf(app, { verifier_id: LONG, workspace_id: LONG });
    const evaluation = await app.refused(operation);
    expect(evaluation.length).toBeGreaterThan(4_096);
    expect(errorOf(await app.ask(evaluation, { context: { operation } }))).toBe("202 undefined");
  });

  test("must ask for the refused scope, within the ceiling, for one line of visible text", async () => {
    const app = await askingAgent(world);
    const evaluation = await app.refused();
    const errors = [
      await app.ask(evaluation, { scopes: ["data:share"] }),
      await app.ask(evaluation, { scopes: ["payments:*"] }),
      await app.ask(evaluation, { scopes: [SCOPE, "files:read"] }),
      await app.ask(evaluation, { scopes: [SCOPE, "data:reed"] }),
      await app.ask(evaluation, { until: "2001-01-01T00:00:00Z" }),
      await app.ask(evaluation, { context: { purpose: "pay \u202ebob" } }),
      await app.ask(evaluation, { context: { purpose: "pay\nbob" } }),
    ].map(errorOf);
    expect(errors).toEqual([
      ...["400 invalid_request", "400 invalid_request", "400 ceiling_exceeded", "400 invalid_scopes"],
      ...["400 invalid_expiry", "400 invalid_request", "400 invalid_request"],
    ]);
    expect(await rows(app)).toBe(1);
  });

  test("cannot ask for another scope after the denial by a dishonest server (attack 14)", async () => {
    const app = await askingAgent(world);
    const made = [randomUUID(), newRequestId(), "x", Buffer.alloc(200).toString("base64url")];
    for (const each of made) expect(errorOf(await app.ask(each))).toBe("404 not_found");
    const evaluation = evaluationOf(await denied(app, { required_scope: "data:share" }));
    expect(errorOf(await app.ask(evaluation))).toBe("400 invalid_request");
    expect(await rows(app)).toBe(1);
  });

  test("cannot show another action than the refused one (attack 20)", async () => {
    const app = await askingAgent(world);
    const [small, large] = [
      { amount: 5, to: "bob" },
      { amount: 5_000, to: "mallory" },
    ];
    const refused = withPayload(app, large);
    const evaluation = await app.refused(refused);
    const ask = (operation: object, payload?: unknown) =>
      app.ask(evaluation, { context: { operation, ...(payload !== undefined && { payload }) } });
    const errors = [
      await ask(withPayload(app, small), small),
      await ask(refused, small),
      await ask({ ...refused, action: "look" }, large),
      await ask({ ...refused, verifier_id: "another" }, large),
      await ask({ ...refused, payload_digest: "" }, large),
      await ask(operationOf(app), large),
      await ask(refused, { text: "\ud800" }),
    ].map(errorOf);
    expect(new Set(errors.slice(0, 6))).toEqual(new Set(["400 session_context_mismatch"]));
    expect(errors[6]).toMatch(/^400 /);
    expect(await rows(app)).toBe(1);
    expect((await ask(refused, large)).status).toBe(202);
  });

  test("shows the action that an application of another account refused", async () => {
    const [app, shop] = [await askingAgent(world), await askingAgent(world)];
    const path = `/v1/service/platforms/${shop.platform.platformId}/accepted-principals/${app.person.humanId}`;
    await shop.person.client.call("PUT", path, { body: { scopes: [SCOPE] } });
    const operation = operationOf({ ...shop, agentId: app.agentId });
    const present = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/present`;
    const proof = (await app.post(present, { operation, cert_id: app.certId })).body.proof_bundle;
    const { body } = await shop.verify(proof, { required_scope: SCOPE, operation });
    expect(body.decision_reason).toBe("not_delegated");
    const { id } = taskOf(await app.ask(String(body.evaluation_id), { context: { operation } }));
    expect(await rowOf(id)).toMatchObject({
      refused_action: expect.any(Buffer),
      refusal: {
        evaluation_id: body.evaluation_id,
        verifier: { platform_name: "Shop", same_account: false },
      },
    });
    const again = taskOf(await app.ask(await app.refused(operation)));
    expect((await rowOf(again.id))?.refusal?.verifier).toMatchObject({
      platform_name: "Shop",
      same_account: false,
    });
    const own = await askingAgent(world);
    for (const each of [await own.refused(), evaluationOf(await denied(own))]) {
      const { id } = taskOf(await own.ask(each));
      expect((await rowOf(id))?.refusal?.verifier).toMatchObject({
        platform_name: "Shop",
        same_account: true,
      });
    }
  });
});

describe("the key of one agent", () => {
  test("cannot ask, read or cancel for another agent, and neither can a stranger", async () => {
    const app = await askingAgent(world);
    const others = [await otherAgent(world, app), await askingAgent(world)];
    const [sealed, receipt] = [await app.refused(), evaluationOf(await denied(app))];
    const { id } = taskOf(await app.ask(sealed));
    for (const other of others) {
      const errors = [
        await other.ask(sealed),
        await other.ask(receipt),
        await other.ask(await other.refused(), { subject: { type: "agent", id: app.agentId } }),
        await other.asAgent("GET", `${ASKING}/${id}`),
        await other.asAgent("POST", `${ASKING}/${id}/cancel`),
      ].map(errorOf);
      expect(new Set(errors)).toEqual(new Set(["404 not_found"]));
    }
    expect((await rowOf(id))?.status).toBe("pending");
  });

  test("cannot read or cancel a request of a person", async () => {
    const app = await askingAgent(world);
    const [own] = await world.api.db("delegation_requests").where({ agent_id: app.agentId });
    expect(errorOf(await app.asAgent("GET", `${ASKING}/${own?.request_id}`))).toBe("404 not_found");
  });

  test("lets a full key ask if it names the agent", async () => {
    const app = await askingAgent(world);
    const body = {
      denial: { evaluation_id: await app.refused() },
      requested_access: { scopes: [SCOPE] },
      context: { purpose: "Refund" },
    };
    expect(errorOf(await app.post(ASKING, body))).toBe("400 agent_required");
    const subject = { type: "agent", id: app.agentId };
    expect(errorOf(await app.post(ASKING, { subject, ...body }))).toBe("202 undefined");
  });
});

describe("limits of asking", () => {
  test("stop an agent that has the authority already, unless a limit refused the action", async () => {
    const app = await askingAgent(world);
    const [refused, unbound] = [await app.refused(), evaluationOf(await denied(app))];
    const wide = ["data:share", SCOPE];
    await certify(app, [SCOPE]);
    expect(errorOf(await app.ask(refused))).toBe("409 already_delegated");
    expect(errorOf(await app.ask(unbound))).toBe("409 already_delegated");
    expect(taskOf(await app.ask(refused, { scopes: wide })).status).toBe("pending");
    const limited = await askingAgent(world);
    const limit = { type: "max_amount", max_amount: 5, currency: "EUR" };
    await certify(limited, [SCOPE], { constraints: [limit] });
    const operation = withPayload(limited, { to: "bob" });
    const { body } = await limited.present({ operation, required_scope: SCOPE });
    const context = { amount: 6, currency: "EUR" };
    const proof = { proof_bundle: body.proof_bundle, operation, context };
    const evaluation = evaluationOf(
      await limited.post("/v1/service/verify", { ...proof, required_scope: SCOPE }),
    );
    const { id } = taskOf(await limited.ask(evaluation, { context: { operation } }));
    await approve(limited.person, id, [SCOPE], { once: true });
    expect(errorOf(await limited.ask(evaluation, { context: { operation } }))).toBe("409 already_delegated");
  });

  test("end an hour after the refusal", async () => {
    const [early, late] = [await askingAgent(world), await askingAgent(world)];
    const refusals = [
      ...[await early.refused(), evaluationOf(await denied(early))],
      ...[await late.refused(), evaluationOf(await denied(late))],
    ];
    const { clock } = world.api;
    const start = clock.now();
    try {
      clock.set(addSeconds(start, 3_599));
      for (const each of refusals.slice(0, 2)) expect((await early.ask(each)).status).toBe(202);
      clock.set(addSeconds(start, 3_601));
      for (const each of refusals.slice(2)) expect(errorOf(await late.ask(each))).toBe("404 not_found");
    } finally {
      clock.set(start);
    }
  });

  test("stop an agent for an hour after a denial of one of the scopes", async () => {
    const app = await askingAgent(world);
    const { id } = taskOf(await app.ask(await app.refused(), { scopes: [SCOPE, "data:share"] }));
    await deny(app, id);
    const again = await app.ask(await app.refused());
    expect(errorOf(again)).toBe("429 denied_recently");
    expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(3_500);
    const other = await otherAgent(world, app);
    expect((await other.ask(await other.refused())).status).toBe(202);
    const decidedAt = addSeconds(world.api.clock.now(), -3_599);
    const decideAt = (at: Date) =>
      world.api.db("delegation_requests").where({ request_id: id }).update({ decided_at: at });
    await decideAt(decidedAt);
    expect(errorOf(await app.ask(await app.refused()))).toBe("429 denied_recently");
    await decideAt(addSeconds(decidedAt, -1));
    expect((await app.ask(await app.refused())).status).toBe(202);
  });

  test.each([
    ["agent", 5, (app: AskingAgent) => ({ agent_id: app.agentId })],
    ["connection", 20, () => ({})],
  ] as const)("let each %s have %i pending requests, and leave room for others", async (_, most, of) => {
    const app = await askingAgent(world);
    const crowd = await otherAgent(world, app);
    const { id } = taskOf(await crowd.ask(await crowd.refused()));
    const copies = most === 5 ? most - 1 : most - 2;
    await copyRequest(world.api.db, id, copies, of(app));
    const evaluation = await app.refused();
    expect((await app.ask(evaluation, { scopes: [SCOPE, "data:share"] })).status).toBe(202);
    expect(errorOf(await app.ask(evaluation, { scopes: [SCOPE, "custom:orders:refund"] }))).toBe(
      "409 request_limit",
    );
    const asked = { connection_id: app.platform.connectionId, agent_id: app.agentId };
    const person = await app.person.client.post("/v1/service/delegations/self-request", asked);
    expect(person.status).toBe(201);
  });

  test("let one agent ask 20 times a day", async () => {
    const app = await askingAgent(world);
    await world.api.db.raw("insert into rate_limits (key, points, expire) values (?, 19, ?)", [
      `asks_day_agent:${app.agentId}`,
      Date.now() + 3_600_000,
    ]);
    const evaluation = await app.refused();
    const { id } = taskOf(await app.ask(evaluation));
    expect(taskOf(await app.ask(evaluation)).id).toBe(id);
    const refused = await app.ask(evaluation, { scopes: [SCOPE, "data:share"] });
    expect(errorOf(refused)).toBe("429 rate_limited");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("let the calls of one account use a fifth of the places in which calls wait", async () => {
    const app = await askingAgent(world);
    const { id: requestId } = taskOf(await app.ask(await app.refused()));
    const waits = createDecisionWaits(world.api.db);
    const wait = (accountId: string, agentId: string) =>
      waits.untilDecided({ requestId, agentId, accountId }, 10);
    const long = Array.from({ length: 20 }, (_, n) => wait("crowd", `agent ${n}`).then(() => "waited"));
    const other = wait("other", "other").then(() => "waited");
    const extra = wait("crowd", "one too many").then(() => "immediate");
    expect(await Promise.race([...long, other, extra])).toBe("immediate");
    await deny(app, requestId);
    await Promise.all([...long, other]);
  });

  test("let no agent ask where two people must decide", async () => {
    const owner = await world.api.person({ organization_name: "Engines" });
    const app = await askingAgent(world, owner);
    await addMember(world.api, owner.accountId, "approver");
    await world.api.db("accounts").where({ account_id: owner.accountId }).update({ four_eyes: true });
    expect(errorOf(await app.ask(await app.refused()))).toBe("403 four_eyes_required");
  });
});
