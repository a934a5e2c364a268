import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { challengeDay, issueChallenge } from "../../../src/proofs/present/challenge.ts";
import { type Application, errorOf, proofApi } from "../application.ts";
import { BOUND_SCOPE, decide, operationOf, type Wish } from "../bound_operations.ts";

const world = proofApi();
const { application } = world;

const OUTSIDE = "https://bank.example";

const challengeOf = async (verifier: Application): Promise<string> =>
  String((await verifier.post("/v1/service/challenge")).body.challenge);

/** The agent's operation at a verifier. */
const operationAt = (verifier: Application, agent: Application, changes: Wish = {}): Wish => ({
  ...operationOf({ ...verifier, agentId: agent.agentId }),
  ...changes,
});

const bound = (operation: Wish) => ({ operation, required_scope: BOUND_SCOPE });

const settings = ({ person, platform }: Application, body: object) =>
  person.client.call("PATCH", `/v1/service/connections/${platform.connectionId}`, { body });

const signatures = (): number => world.api.vault.calls.filter((call) => call === "signChallenge").length;

async function expectNothingSigned(agent: Application, fields: Record<string, unknown>): Promise<void> {
  const before = signatures();
  expect(errorOf(await agent.present(fields))).toBe("400 invalid_challenge");
  expect(signatures()).toBe(before);
}

describe("a challenge of another connection", () => {
  test("gets no signature if the call does not name that connection", async () => {
    const [bank, agent] = [await application(), await application()];
    for (const fields of [
      {},
      { required_scope: "data:read" },
      { session_context: randomBytes(32).toString("base64") },
      { verifier_connection_id: agent.platform.connectionId },
      { verifier_connection_id: randomUUID() },
      { verifier_connection_id: "nonsense" },
    ]) {
      await expectNothingSigned(agent, { challenge: await challengeOf(bank), ...fields });
    }
  });

  test("gets a signature for the connection that the call names", async () => {
    const [bank, agent] = [await application(), await application()];
    const challenge = await challengeOf(bank);
    const { body } = await agent.present({ challenge, verifier_connection_id: bank.platform.connectionId });
    expect((await bank.verify(body.proof_bundle)).body.decision_reason).toBe("principal_not_accepted");
  });

  test("gets a signature for an operation whose verifier and workspace together name it", async () => {
    const [bank, agent] = [await application(), await application()];
    expect((await settings(bank, { verifier_id: OUTSIDE })).status).toBe(200);
    const operation = operationAt(bank, agent, { verifier_id: OUTSIDE });
    const { body } = await agent.present({ challenge: await challengeOf(bank), ...bound(operation) });
    const answer = await decide(bank, body.proof_bundle, operation);
    expect(answer.body.decision_reason).toBe("principal_not_accepted");
  });

  test("gets no signature for an operation that names another connection, even one of the same name", async () => {
    const [bank, forger, agent] = [await application(), await application(), await application()];
    await settings(bank, { verifier_id: OUTSIDE });
    await settings(forger, { verifier_id: OUTSIDE });
    for (const changes of [
      { verifier_id: OUTSIDE, workspace_id: forger.person.accountId },
      { verifier_id: OUTSIDE, workspace_id: agent.person.accountId },
      { verifier_id: OUTSIDE, workspace_id: "bank" },
      { verifier_id: bank.platform.connectionId },
      { verifier_id: forger.platform.connectionId },
    ]) {
      const operation = operationAt(bank, agent, changes);
      await expectNothingSigned(agent, { challenge: await challengeOf(bank), ...bound(operation) });
    }
  });

  test("gets no signature if the call names a connection and the challenge is of the operation's verifier", async () => {
    const [bank, agent] = [await application(), await application()];
    const operation = operationAt(bank, agent);
    await expectNothingSigned(agent, {
      ...{ challenge: await challengeOf(bank), ...bound(operation) },
      verifier_connection_id: agent.platform.connectionId,
    });
  });

  test("gets no signature for an outside verifier, even after the challenge expired", async () => {
    const [bank, agent] = [await application(), await application()];
    expect((await settings(agent, { outside_verifiers: [OUTSIDE] })).status).toBe(200);
    const operation = operationAt(bank, agent, { verifier_id: OUTSIDE });
    const challenge = await challengeOf(bank);
    await expectNothingSigned(agent, { challenge, ...bound(operation) });
    world.api.clock.advance(301);
    await expectNothingSigned(agent, { challenge, ...bound(operation) });
    await expectNothingSigned(agent, { challenge: await expiredChallenge(agent), ...bound(operation) });
  });

  async function expiredChallenge(app: Application): Promise<string> {
    const challenge = await challengeOf(app);
    world.api.clock.advance(301);
    return challenge;
  }
});

describe("a challenge of an outside verifier", () => {
  /**
   * Challenges of an application with the protocol's library, and of another installation of this service.
   */
  function outsideChallenges(): string[] {
    const now = world.api.clock.now();
    const key = { day: challengeDay(now), secret: randomBytes(32) };
    return [randomBytes(32), issueChallenge(key, randomUUID(), now)].map((bytes) => bytes.toString("base64"));
  }

  test("gets a signature only for an operation whose verifier the connection lists", async () => {
    const agent = await application();
    const operation = { ...operationOf(agent), verifier_id: OUTSIDE, workspace_id: "their workspace" };
    for (const challenge of outsideChallenges()) {
      await settings(agent, { outside_verifiers: [] });
      await expectNothingSigned(agent, { challenge, ...bound(operation) });
      const changed = await settings(agent, { outside_verifiers: ["https://shop.example", OUTSIDE] });
      expect(changed.body.outside_verifiers).toEqual(["https://shop.example", OUTSIDE]);
      for (const fields of [
        {},
        { session_context: randomBytes(32).toString("base64") },
        bound({ ...operation, verifier_id: `${OUTSIDE}/` }),
        { ...bound(operation), verifier_connection_id: agent.platform.connectionId },
      ]) {
        await expectNothingSigned(agent, { challenge, ...fields });
      }
      const { body } = await agent.present({ challenge, ...bound(operation) });
      expect(body.proof_bundle).toMatchObject({ challenge, session_context: expect.any(String) });
      const freshUntil = world.api.clock.now().getTime() + 300_000;
      expect(Date.parse(String(body.expires_at))).toBeGreaterThan(freshUntil - 5_000);
    }
  });

  test("gets no signature if another connection lists the verifier, or if it has another length than 32 bytes", async () => {
    const [agent, other] = [await application(), await application()];
    await settings(other, { outside_verifiers: [OUTSIDE] });
    const operation = { ...operationOf(agent), verifier_id: OUTSIDE };
    const challenge = randomBytes(32).toString("base64");
    await expectNothingSigned(agent, { challenge, ...bound(operation) });
    await settings(agent, { outside_verifiers: [OUTSIDE] });
    for (const length of [0, 31, 33, 64]) {
      const odd = randomBytes(length).toString("base64");
      await expectNothingSigned(agent, { challenge: odd, ...bound(operation) });
    }
  });

  test("cannot have a verifier that is listed twice, empty or longer than 512 bytes, nor more than 50 verifiers", async () => {
    const agent = await application([]);
    const names = (count: number) => Array.from({ length: count }, (_, n) => `https://${n}.example`);
    expect((await settings(agent, { outside_verifiers: names(50) })).status).toBe(200);
    for (const wrong of [names(51), ["a", "a"], [""], ["é".repeat(257)], ["two\nlines"], "a", null]) {
      expect(errorOf(await settings(agent, { outside_verifiers: wrong }))).toBe("400 invalid_request");
    }
    const path = `/v1/service/connections/${agent.platform.connectionId}`;
    expect((await agent.person.client.get(path)).body.outside_verifiers).toEqual(names(50));
  });
});
