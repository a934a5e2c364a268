import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { HttpAnswer } from "../../support/http.ts";
import { type Application, errorOf, proofApi } from "../application.ts";
import { BOUND_SCOPE, decide, operationOf, type Wish } from "../bound_operations.ts";

const world = proofApi();
const { application } = world;

const OUTSIDE = "https://bank.example";

/** Calls `present` without a challenge. */
const presentFor = (agent: Application, operation: Wish, fields: object = {}): Promise<HttpAnswer> =>
  agent.post(`/v1/service/connections/${agent.platform.connectionId}/agents/${agent.agentId}/present`, {
    ...{ operation, required_scope: BOUND_SCOPE },
    ...fields,
  });

/** The agent's operation at a verifier. */
const operationAt = (verifier: Application, agent: Application, changes: Wish = {}): Wish => ({
  ...operationOf({ ...verifier, agentId: agent.agentId }),
  ...changes,
});

const change = ({ person, platform }: Application, body: object) =>
  person.client.call("PATCH", `/v1/service/connections/${platform.connectionId}`, { body });

const signatures = (): number => world.api.vault.calls.filter((call) => call === "signChallenge").length;

async function expectNothingSigned(
  error: string,
  presenting: () => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  const before = signatures();
  const answer = await presenting();
  expect(errorOf(answer)).toBe(error);
  expect(signatures()).toBe(before);
  return answer;
}

const reasonOf = ({ body }: HttpAnswer) => body.decision_reason;

describe("present with an operation and without a challenge", () => {
  test("makes a proof that the caller's own connection allows, once, in two calls", async () => {
    const app = await application();
    const operation = operationOf(app);
    const { status, body } = await presentFor(app, operation);
    expect(status).toBe(200);
    expect(Date.parse(String(body.expires_at))).toBeGreaterThan(world.api.clock.now().getTime() + 290_000);
    expect((await decide(app, body.proof_bundle, operation)).body).toMatchObject({ decision: "allow" });
    const again = operationOf(app, { invocation_id: String(operation.invocation_id) });
    expect((await decide(app, body.proof_bundle, again)).body).toMatchObject({ replayed: true });
    const spent = { proof_ref: body.proof_ref, operation, required_scope: BOUND_SCOPE };
    expect((await app.post("/v1/service/verify", spent)).body).toMatchObject({ replayed: true });
  });

  test("means the connection with an id, even if another connection has taken the id as its name", async () => {
    const owner = await world.api.person({ organization_name: "Engines" });
    const bank = await application(undefined, owner);
    const namesake = await application(undefined, owner);
    const { connectionId } = bank.platform;
    const renamed = await change(namesake, { verifier_id: connectionId });
    expect([errorOf(renamed), renamed.text]).toEqual([
      "400 invalid_request",
      expect.stringMatching(/verifier_id: an id/),
    ]);
    // Earlier releases allowed this.
    const place = { connection_id: namesake.platform.connectionId };
    await world.api.db("connections").where(place).update({ verifier_id: connectionId });
    const stranger = await application();
    for (const agent of [stranger, namesake]) {
      const operation = operationAt(bank, agent);
      const { body } = await presentFor(agent, operation);
      expect((await decide(namesake, body.proof_bundle, operation)).body.decision).not.toBe("allow");
      expect(errorOf(await decide(bank, body.proof_bundle, operation))).toBe("200 undefined");
    }
  });

  test("makes each proof over another challenge, and stores one history event", async () => {
    const app = await application();
    const first = await presentFor(app, operationOf(app));
    const rows = () => world.api.db("audit_events").where({ account_id: app.person.accountId });
    const before = await rows();
    const second = await presentFor(app, operationOf(app));
    const [one, other] = [first, second].map(({ body }) => Object(body.proof_bundle).challenge);
    expect(one).not.toBe(other);
    expect(await rows()).toHaveLength(before.length + 1);
  });

  test("makes a proof for the verifier that the operation names, which no other connection accepts", async () => {
    const [bank, shop, agent] = [await application(), await application(), await application()];
    for (const fields of [{}, { verifier_connection_id: bank.platform.connectionId }]) {
      const operation = operationAt(bank, agent);
      const { body } = await presentFor(agent, operation, fields);
      for (const other of [shop, agent]) {
        const own = operationAt(other, agent, { invocation_id: String(operation.invocation_id) });
        expect(errorOf(await decide(other, body.proof_bundle, operation))).toBe("403 verifier_mismatch");
        expect(errorOf(await decide(other, body.proof_bundle, own))).toBe("400 invalid_challenge");
        expect(errorOf(await other.verify(body.proof_bundle))).toBe("400 invalid_challenge");
      }
      expect(reasonOf(await decide(bank, body.proof_bundle, operation))).toBe("principal_not_accepted");
    }
  });

  test("finds the verifier by the connection's registered name, and not by its id", async () => {
    const [bank, agent] = [await application(), await application()];
    await change(bank, { verifier_id: OUTSIDE });
    const operation = operationAt(bank, agent, { verifier_id: OUTSIDE });
    const { body } = await presentFor(agent, operation);
    expect(reasonOf(await decide(bank, body.proof_bundle, operation))).toBe("principal_not_accepted");
    await expectNothingSigned("403 verifier_mismatch", () => presentFor(agent, operationAt(bank, agent)));
  });

  test("refuses a call with neither a challenge nor an operation with a message that names both", async () => {
    const agent = await application();
    for (const fields of [{}, { verifier_connection_id: agent.platform.connectionId }]) {
      const { body } = await expectNothingSigned("400 invalid_request", () =>
        presentFor(agent, {}, { operation: undefined, ...fields }),
      );
      expect(body.error).toMatchObject({ message: expect.stringMatching(/^challenge: .* operation/) });
    }
  });

  test("refuses an operation of an unknown, outside or removed verifier, whether listed or not", async () => {
    const [bank, agent] = [await application(), await application()];
    await change(agent, { outside_verifiers: [OUTSIDE] });
    for (const changes of [
      { verifier_id: OUTSIDE },
      { verifier_id: randomUUID() },
      { workspace_id: randomUUID() },
      { workspace_id: agent.person.accountId },
      { workspace_id: "bank" },
    ]) {
      const { body } = await expectNothingSigned("403 verifier_mismatch", () =>
        presentFor(agent, operationAt(bank, agent, changes)),
      );
      expect(body.error).toMatchObject({ message: expect.stringContaining("outside verifier") });
    }
    await world.api
      .db("connections")
      .where({ connection_id: bank.platform.connectionId })
      .update({ removed_at: world.api.clock.now() });
    await expectNothingSigned("403 verifier_mismatch", () => presentFor(agent, operationAt(bank, agent)));
  });

  test("asks for verifier_connection_id if several connections have the operation's name", async () => {
    const person = await world.api.person({ organization_name: "Bank" });
    const bank = await application([BOUND_SCOPE], person);
    const [twin, agent] = [await application([BOUND_SCOPE], person), await application()];
    const { connectionId } = bank.platform;
    for (const each of [bank, twin]) await change(each, { verifier_id: OUTSIDE });
    const operation = operationAt(bank, agent, { verifier_id: OUTSIDE });
    const { body } = await expectNothingSigned("400 invalid_request", () => presentFor(agent, operation));
    expect(body.error).toMatchObject({ message: expect.stringContaining("verifier_connection_id") });
    const named = await presentFor(agent, operation, { verifier_connection_id: connectionId });
    expect(reasonOf(await decide(bank, named.body.proof_bundle, operation))).toBe("principal_not_accepted");
  });

  test("keeps the rules of present for the agent, the certificate and the binding", async () => {
    const [app, other] = [await application(), await application()];
    const theirs = operationOf({ ...app, agentId: other.agentId });
    await expectNothingSigned("400 session_context_mismatch", () => presentFor(app, theirs));
    const changed = { ...operationOf(app), action: "transfer" };
    await expectNothingSigned("400 session_context_mismatch", () => presentFor(app, changed));
    const context = { session_context: Buffer.alloc(32).toString("base64") };
    await expectNothingSigned("400 invalid_request", () => presentFor(app, operationOf(app), context));
    const path = `/v1/service/connections/${app.platform.connectionId}/agents/${other.agentId}/present`;
    await expectNothingSigned("404 not_found", () => app.post(path, { operation: theirs }));
  });
});

describe("an attack on proofs without a challenge", () => {
  test("refuses at the bank a proof that a hostile server with the bank's actions got", async () => {
    const [bank, hostile, agent] = [await application(), await application(), await application()];
    const payment = { action: "send_payment", resource_id: "mallory", invocation_id: randomUUID() };
    const wanted = operationOf({ ...hostile, agentId: agent.agentId }, payment);
    const atBank = operationOf({ ...bank, agentId: agent.agentId }, payment);
    const { body } = await presentFor(agent, wanted);
    expect(errorOf(await decide(bank, body.proof_bundle, wanted))).toBe("403 verifier_mismatch");
    expect(errorOf(await decide(bank, body.proof_bundle, atBank))).toBe("400 invalid_challenge");
  });

  test("signs nothing for an operation of another verifier than the named connection", async () => {
    const [bank, hostile, agent] = [await application(), await application(), await application()];
    for (const [named, verifier] of [
      [hostile, bank],
      [bank, hostile],
      [agent, bank],
      [bank, agent],
    ] as const) {
      await expectNothingSigned("403 verifier_mismatch", () =>
        presentFor(agent, operationAt(verifier, agent), {
          verifier_connection_id: named.platform.connectionId,
        }),
      );
    }
    for (const id of [randomUUID(), "nonsense"]) {
      await expectNothingSigned("403 verifier_mismatch", () =>
        presentFor(agent, operationAt(bank, agent), { verifier_connection_id: id }),
      );
    }
  });

  test("writes no row for a refused call, not even the day's challenge key", async () => {
    const [bank, agent, without] = [await application(), await application(), await application([])];
    world.api.clock.advance(2 * 86_400);
    const written = async () => {
      const counts = ["challenge_keys", "audit_events", "history_queue", "idempotency_keys", "outbox"].map(
        (table) => world.api.db(table).count("*").first(),
      );
      return Promise.all(counts);
    };
    const before = await written();
    const refused = [
      await presentFor(without, operationAt(bank, without)),
      await presentFor(agent, operationAt(bank, agent, { verifier_id: OUTSIDE })),
      await presentFor(agent, operationAt(bank, agent, { agent_id: "0".repeat(32) })),
      await presentFor(agent, operationAt(bank, agent), { required_scope: "data:share" }),
      await presentFor(agent, {}, { operation: undefined }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([404, 403, 400, 400, 400]);
    expect(await written()).toEqual(before);
    expect((await presentFor(agent, operationAt(bank, agent))).status).toBe(200);
  });
});
