import { describe, expect, test } from "vitest";
import { setCredit } from "../support/account_rows.ts";
import { type Application, errorOf, proofApi } from "./application.ts";
import { decide, operationOf, prove, BOUND_SCOPE as SCOPE, type Wish } from "./bound_operations.ts";

const world = proofApi();
const PRICE = 2_000;

async function balanceOf({ person }: Application): Promise<number> {
  const row = await world.api.db("balances").where({ account_id: person.accountId }).first();
  return row?.balance_micro_usd ?? Number.NaN;
}

describe("an operation", () => {
  test("gets the same decision for the same proof, a fresh proof and a stale proof, and is charged once", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const before = await balanceOf(app);
    const proof = await prove(app, operation);
    const first = await decide(app, proof, operation);
    const answers = [
      await decide(app, proof, operation),
      await decide(app, await prove(app, operation), operation),
    ];
    world.api.clock.advance(301);
    answers.push(await decide(app, proof, operation));
    for (const answer of answers) expect(answer.body).toEqual({ ...first.body, replayed: true });
    const explained = await decide(app, proof, operation, { explain: true });
    const { checks } = explained.body as { checks: { outcome: string }[] };
    expect(explained.body).toEqual({ ...first.body, replayed: true, checks });
    expect(new Set(checks.map(({ outcome }) => outcome))).toEqual(new Set(["passed"]));
    expect(await balanceOf(app)).toBe(before - PRICE);
    const events = await world.api.db("audit_events").where({ account_id: app.person.accountId });
    expect(events.filter(({ decision }) => decision !== null)).toHaveLength(1);
  });

  test("gets its decision for a stale proof only if the decision was made with that proof", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/present`;
    // This agent's clock is 100 seconds slow.
    const proveLate = async () => {
      const { challenge } = (await app.post("/v1/service/challenge")).body;
      world.api.clock.advance(-100);
      const { body } = await app.post(path, { challenge, operation });
      world.api.clock.advance(100);
      return body.proof_bundle;
    };
    const [used, unused] = [await proveLate(), await proveLate()];
    const first = await decide(app, used, operation);
    world.api.clock.advance(250);
    expect(errorOf(await decide(app, unused, operation))).toBe("400 invalid_proof");
    expect((await decide(app, used, operation)).body).toEqual({ ...first.body, replayed: true });
  });

  test("gets the same denial again, with the same wording, even if the operation would now be allowed", async () => {
    const app = await world.application(["data:read"]);
    const operation = operationOf(app);
    const denied = await decide(app, (await app.present({ operation })).body.proof_bundle, operation);
    expect(denied.body).toMatchObject({ decision: "deny", decision_reason: "not_delegated" });
    expect(denied.body.error_reason).toMatch(/^scope_denied/);
    const again = await decide(app, (await app.present({ operation })).body.proof_bundle, operation);
    expect(again.body).toEqual({ ...denied.body, replayed: true });
  });

  test("leaves the fresh challenge of a repeated call unspent", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    await decide(app, await prove(app, operation), operation);
    const spent = () => world.api.db("spent_challenges").where({ connection_id: app.platform.connectionId });
    const before = (await spent()).length;
    await decide(app, await prove(app, operation), operation);
    expect((await spent()).length).toBe(before);
  });

  test("gets no decision for a forged proof, nor for a stale proof other than the one that led to the decision", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const [used, unused] = [await prove(app, operation), await prove(app, operation)];
    await decide(app, used, operation);
    const forged = structuredClone(used) as { challenge_sig: { ed25519: string } };
    const { ed25519 } = forged.challenge_sig;
    forged.challenge_sig.ed25519 = `${ed25519.startsWith("A") ? "B" : "A"}${ed25519.slice(1)}`;
    const answer = await decide(app, forged, operation);
    expect(errorOf(answer)).toMatch(/^400 invalid_(proof|challenge)$/);
    world.api.clock.advance(301);
    expect(errorOf(await decide(app, unused, operation))).toBe("400 invalid_challenge");
  });

  test.each([
    ["another resource", { resource_id: "order-8" }, {}],
    ["another session", { session_id: "s-2" }, {}],
    ["another context", {}, { context: { amount: 7 } }],
  ])(
    "gets 409 invocation_conflict if a call has the same id with %s, and spends nothing",
    async (_, changes, fields) => {
      const app = await world.application();
      const operation = operationOf(app);
      await decide(app, await prove(app, operation), operation);
      const other = operationOf(app, { ...(changes as Wish), invocation_id: operation.invocation_id ?? "" });
      const answer = await decide(app, await prove(app, other), other, fields);
      expect(errorOf(answer)).toBe("409 invocation_conflict");
      expect(await balanceOf(app)).toBe(10_000_000 - PRICE);
    },
  );

  test("gets 409 if a call has the same id with a different action, whatever proof the call contains", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const used = await prove(app, operation);
    await decide(app, used, operation);
    const other = operationOf(app, { action: "refund-all", invocation_id: operation.invocation_id ?? "" });
    const proofs = [used, await prove(app, operation), await app.proof(), {}, "no proof", { ref: "none" }];
    for (const proof of proofs) {
      expect(errorOf(await decide(app, proof, other))).toBe("409 invocation_conflict");
    }
    const mixed = { ...other, request_hash: operation.request_hash ?? "" };
    expect(errorOf(await decide(app, used, mixed))).toBe("409 invocation_conflict");
    expect(await balanceOf(app)).toBe(10_000_000 - PRICE);
    const spent = await world.api.db("spent_challenges").where({ connection_id: app.platform.connectionId });
    expect(spent).toHaveLength(1);
  });

  test("does not affect a different application's operation with the same id", async () => {
    const [app, other] = [await world.application(), await world.application()];
    const operation = operationOf(app, { invocation_id: "same" });
    const theirs = operationOf(other, { invocation_id: "same" });
    expect((await decide(app, await prove(app, operation), operation)).body.replayed).toBe(false);
    expect((await decide(other, await prove(other, theirs), theirs)).body.replayed).toBe(false);
  });

  test("does not affect the decision, outcome or receipt of an operation with the same id at a different connection", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const [app, other] = [await world.application([SCOPE], person), await world.application([SCOPE], person)];
    const operation = operationOf(app, { invocation_id: "same" });
    const theirs = operationOf(other, { invocation_id: "same" });
    const { body } = await decide(app, await prove(app, operation), operation);
    const { receipt_id: receiptId } = body.receipt as { receipt_id: string };
    const report = () =>
      other.post("/v1/service/invocations/same/outcome", {
        outcome: "failed",
        receipt_id: receiptId,
        occurred_at: "2026-05-01T10:00:00Z",
      });
    expect(errorOf(await report())).toBe("404 not_found");
    const headers = { "x-service-api-key": other.platform.apiKey };
    const receipt = await world.api.client().get(`/v1/service/receipts/${receiptId}`, { headers });
    expect(errorOf(receipt)).toBe("404 not_found");
    expect((await decide(other, await prove(other, theirs), theirs)).body.replayed).toBe(false);
    expect(errorOf(await report())).toBe("409 outcome_conflict");
    expect(errorOf(await decide(other, await prove(app, operation), operation))).toBe(
      "403 verifier_mismatch",
    );
    const rows = (table: "invocations" | "outcomes") =>
      world.api.db(table).where({ account_id: person.accountId });
    expect([(await rows("invocations")).length, await rows("outcomes")]).toEqual([2, []]);
  });

  test("gets its decision after a top-up if there was no credit at first", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const balance = (micro: number) => setCredit(world.api.db, app.person.accountId, micro);
    await balance(PRICE - 1);
    expect(errorOf(await decide(app, await prove(app, operation), operation))).toBe("402 credits_exhausted");
    await balance(PRICE);
    const { body } = await decide(app, await prove(app, operation), operation);
    expect(body).toMatchObject({ decision: "allow", replayed: false });
    expect(await balanceOf(app)).toBe(0);
  });

  test("gets 402 for each of 16 concurrent calls without credit", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    await setCredit(world.api.db, app.person.accountId, PRICE - 1);
    const proofs = await Promise.all(Array.from({ length: 16 }, () => prove(app, operation)));
    const answers = await Promise.all(proofs.map((proof) => decide(app, proof, operation)));
    expect(answers.map(errorOf)).toEqual(Array.from({ length: 16 }, () => "402 credits_exhausted"));
  });

  test("gets its decision later if the certificate's state was unknown at first", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const certificates = () => world.api.db("certificates").where({ cert_id: app.certId });
    const proofs = [await prove(app, operation), await prove(app, operation)];
    const row = await certificates().first();
    if (row === undefined) throw new Error("no certificate");
    await certificates().delete();
    expect((await decide(app, proofs[0], operation)).body).toMatchObject({
      decision: "indeterminate",
      replayed: false,
    });
    await world.api.db("certificates").insert(row);
    expect((await decide(app, proofs[1], operation)).body).toMatchObject({
      decision: "allow",
      replayed: false,
    });
  });

  test("gets its decision although a proof with a root that is not accepted was denied under the same id", async () => {
    const [shop, stranger] = [await world.application(), await world.application()];
    const rightful = operationOf(shop);
    const theirs = { ...rightful, agent_id: stranger.agentId };
    const proveTheirs = async (operation: Wish) => {
      const { challenge } = (await shop.post("/v1/service/challenge")).body;
      const { body } = await stranger.present({ challenge, operation, required_scope: SCOPE });
      return body.proof_bundle;
    };
    const spent = await proveTheirs(theirs);
    expect((await decide(shop, spent, theirs)).body).toMatchObject({
      decision: "deny",
      decision_reason: "principal_not_accepted",
      replayed: false,
    });
    expect(errorOf(await decide(shop, spent, theirs))).toBe("400 invalid_challenge");
    expect(await balanceOf(shop)).toBe(10_000_000 - PRICE);
    const { body } = await decide(shop, await prove(shop, rightful), rightful);
    expect(body).toMatchObject({ decision: "allow", replayed: false });
    expect(errorOf(await decide(shop, await proveTheirs(theirs), theirs))).toBe("409 invocation_conflict");

    const later = { ...operationOf(shop), agent_id: stranger.agentId };
    expect((await decide(shop, await proveTheirs(later), later)).body.decision).toBe("deny");
    const path = `/v1/service/platforms/${shop.platform.platformId}/accepted-principals`;
    await shop.person.client.call("PUT", `${path}/${stranger.person.humanId}`, { body: { scopes: [SCOPE] } });
    const accepted = await decide(shop, await proveTheirs(later), later);
    expect(accepted.body).toMatchObject({ decision: "allow", replayed: false });
    expect((await decide(shop, await proveTheirs(later), later)).body).toMatchObject({
      decision: "allow",
      replayed: true,
    });
    expect(await balanceOf(shop)).toBe(10_000_000 - 4 * PRICE);
  });

  test("gets one decision and one charge from 16 concurrent calls with 16 proofs, in 4 rounds", async () => {
    const app = await world.application();
    for (let round = 1; round <= 4; round += 1) {
      const operation = operationOf(app);
      const proofs = await Promise.all(Array.from({ length: 16 }, () => prove(app, operation)));
      const answers = await Promise.all(proofs.map((proof) => decide(app, proof, operation)));
      expect(answers.map(({ body }) => body.decision)).toEqual(Array.from({ length: 16 }, () => "allow"));
      expect(answers.filter(({ body }) => body.replayed === false)).toHaveLength(1);
      expect(new Set(answers.map(({ body }) => body.receipt_hash)).size).toBe(1);
      expect(await balanceOf(app)).toBe(10_000_000 - round * PRICE);
    }
  }, 60_000);

  test("gets the decision of a second process that decides at the same time, without a second charge", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const first = await decide(app, await prove(app, operation), operation);
    const { db } = world.api;
    const rows = db("invocations").where({ invocation_id: operation.invocation_id ?? "" });
    const row = await rows.clone().first();
    if (row === undefined) throw new Error("no invocation");
    await rows.clone().delete();
    const other = await db.transaction();
    await other("invocations").insert(row);
    const answer = decide(app, await prove(app, operation), operation);
    await expect
      .poll(
        async () => {
          const waiting = { datname: db.raw("current_database()"), application_name: "deputize-patient" };
          return (await db("pg_stat_activity").where({ ...waiting, wait_event_type: "Lock" })).length;
        },
        { timeout: 10_000 },
      )
      .toBe(1);
    await other.commit();
    expect((await answer).body).toEqual({ ...first.body, replayed: true });
    expect(await balanceOf(app)).toBe(10_000_000 - PRICE);
  });

  test("gets only one decision even with a rate-limited certificate", async () => {
    const app = await world.application([]);
    const { certify } = await import("./application.ts");
    await certify(app, [SCOPE], { constraints: [{ type: "max_rate", count: 1, window_s: 60 }] });
    const operation = operationOf(app);
    const proofs = await Promise.all(Array.from({ length: 6 }, () => prove(app, operation)));
    const answers = await Promise.all(proofs.map((proof) => decide(app, proof, operation)));
    expect(answers.map(({ body }) => body.decision)).toEqual(Array.from({ length: 6 }, () => "allow"));
    expect(answers.filter(({ body }) => body.replayed === false)).toHaveLength(1);
  });
});
