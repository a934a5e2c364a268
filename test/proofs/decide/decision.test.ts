import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertCertificate, insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();
const { decideOne, balanceOf, countOf, spentOf } = world;

describe("one decision", () => {
  test("writes one audit row and one ledger posting, charges once and spends the challenge", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const item = itemFor(records);
    expect(await decideOne(item)).toMatchObject({ kind: "decided", decision: "allow", reason: "authorized" });
    expect(await balanceOf(records)).toBe(9 * price);
    expect(await spentOf(records)).toBe(1);
    const [posting] = await world.db("ledger_postings").where({ account_id: records.accountId });
    expect(posting).toMatchObject({ posting_id: item.challenge, amount_micro_usd: price });
    const [row] = await world.db("audit_events").where({ account_id: records.accountId });
    expect(row).toMatchObject({ event_id: item.eventId, event_type: "proof.verified", decision: "allow" });
  });

  test("builds the receipt from head, decision and tail, and hashes its exact bytes", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const outcome = await decideOne(itemFor(records));
    const row = await world.db("audit_events").where({ account_id: records.accountId }).first();
    expect(row?.receipt).toBe(
      '{"agent_id":"a","decision":"allow","decision_reason":"authorized","granted_scope":["data:read","payments:send"],"human_id":"h"}',
    );
    const hash = createHash("sha256")
      .update(row?.receipt ?? "")
      .digest();
    expect(row?.receipt_hash?.equals(hash)).toBe(true);
    expect(outcome).toMatchObject({ receiptHash: hash });
  });

  test("charges a denial by the pure rules, and records this denial as rejected", async () => {
    const records = await insertRecords(world.db, price);
    const outcome = await decideOne(itemFor(records, { decision: "deny", reason: "not_delegated" }));
    expect(outcome).toMatchObject({ decision: "deny", reason: "not_delegated" });
    expect(await balanceOf(records)).toBe(0);
    const row = await world.db("audit_events").where({ account_id: records.accountId }).first();
    expect(row).toMatchObject({ event_type: "proof.rejected", decision_reason: "not_delegated" });
    expect(row?.receipt).toContain('"granted_scope":[]');
  });

  test("reports a revoked certificate instead of an allow or a later violation", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await world.db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    const revoked = { decision: "deny", reason: "delegation_revoked" };
    expect(await decideOne(itemFor(records))).toMatchObject(revoked);
    expect(await decideOne(itemFor(records, { decision: "deny", reason: "not_delegated" }))).toMatchObject(
      revoked,
    );
  });

  test("reports the violation of a rule that comes before the check of the certificates' state", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await world.db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    const expired = itemFor(records, { decision: "deny", reason: "delegation_expired", certificates: [] });
    expect(await decideOne(expired)).toMatchObject({ decision: "deny", reason: "delegation_expired" });
  });

  test("becomes indeterminate, and is recorded but not charged, if a certificate's state is unknown", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const certificates = [{ accountId: records.accountId, certId: `cert-${randomUUID()}` }];
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({
      decision: "indeterminate",
      reason: "revocation_state_unavailable",
    });
    expect(await balanceOf(records)).toBe(10 * price);
    expect(await countOf("ledger_postings", records)).toBe(0);
    expect(await countOf("audit_events", records)).toBe(1);
  });

  test("ignores a different account's certificate with the same id", async () => {
    const [records, other] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, price),
    ];
    const certificates = [{ accountId: records.accountId, certId: other.certId }];
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "indeterminate" });
  });

  test("denies a scope that was removed from the ceiling after the approval", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await world
      .db("certificates")
      .where({ cert_id: records.certId })
      .update({ ceiling_scope: ["files:read"] });
    expect(await decideOne(itemFor(records))).toMatchObject({ decision: "deny", reason: "ceiling_exceeded" });
    await world
      .db("certificates")
      .where({ cert_id: records.certId })
      .update({ ceiling_scope: ["data:read"] });
    expect(await decideOne(itemFor(records))).toMatchObject({
      decision: "allow",
      receipt: expect.stringContaining('"granted_scope":["data:read"]'),
    });
  });

  test("denies a scope as not delegated if neither the chain nor the ceiling grants it", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await world
      .db("certificates")
      .where({ cert_id: records.certId })
      .update({ ceiling_scope: ["files:read"] });
    const denied = itemFor(records, { decision: "deny", reason: "not_delegated" });
    expect(await decideOne(denied)).toMatchObject({ decision: "deny", reason: "not_delegated" });
  });

  test("denies with the reason for revocation if one certificate in the chain is revoked and a second one is unknown", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await world.db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    const certificates = [`cert-${randomUUID()}`, records.certId].map((certId) => ({
      accountId: records.accountId,
      certId,
    }));
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({
      decision: "deny",
      reason: "delegation_revoked",
    });
  });

  test("checks the last certificate in a chain like the first certificate: unknown, revoked or over the ceiling", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const second = `cert-${randomUUID()}`;
    const certificates = [records.certId, second].map((certId) => ({ accountId: records.accountId, certId }));
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "indeterminate" });
    await insertCertificate(world.db, records, second);
    await world
      .db("certificates")
      .where({ cert_id: second })
      .update({ ceiling_scope: ["payments:send"] });
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ reason: "ceiling_exceeded" });
  });

  test("denies if one certificate in the chain is revoked", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const second = `cert-${randomUUID()}`;
    await insertCertificate(world.db, records, second);
    const certificates = [records.certId, second].map((certId) => ({ accountId: records.accountId, certId }));
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "allow" });
    await world.db("certificates").where({ cert_id: second }).update({ status: "revoked" });
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({
      reason: "delegation_revoked",
    });
  });
});

describe("a challenge in the deciding statement", () => {
  test("can be used once, and a second use is refused, not charged and not recorded", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const item = itemFor(records);
    await decideOne(item);
    expect(await decideOne({ ...item, eventId: randomUUID() })).toEqual({ kind: "challenge_spent" });
    expect(await balanceOf(records)).toBe(9 * price);
    expect(await countOf("audit_events", records)).toBe(1);
  });

  test("can be used once if one batch contains it twice", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const item = itemFor(records);
    const outcomes = await decideBatch(world.pool, [item, { ...item, eventId: randomUUID() }]);
    expect(outcomes.map((outcome) => outcome.kind).sort()).toEqual(["challenge_spent", "decided"]);
    expect(await balanceOf(records)).toBe(9 * price);
  });

  test("can be used once by 32 callers in separate statements", async () => {
    const records = await insertRecords(world.db, 100 * price);
    const item = itemFor(records);
    const outcomes = await Promise.all(
      Array.from({ length: 32 }, () => decideOne({ ...item, eventId: randomUUID() })),
    );
    expect(outcomes.filter((outcome) => outcome?.kind === "decided")).toHaveLength(1);
    expect(await countOf("audit_events", records)).toBe(1);
    expect(await balanceOf(records)).toBe(99 * price);
  });

  test("can be used once at each of two connections", async () => {
    const [one, two] = [await insertRecords(world.db, price), await insertRecords(world.db, price)];
    const challenge = randomBytes(32);
    const outcomes = await decideBatch(world.pool, [
      itemFor(one, { challenge }),
      itemFor(two, { challenge }),
    ]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["decided", "decided"]);
  });
});

describe("credit", () => {
  test("pays for the last affordable decision, and the next item is refused and not recorded", async () => {
    const records = await insertRecords(world.db, 2 * price + (price - 1));
    const outcomes = await decideBatch(world.pool, [itemFor(records), itemFor(records), itemFor(records)]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["decided", "decided", "credits_exhausted"]);
    expect(await balanceOf(records)).toBe(price - 1);
    expect(await countOf("audit_events", records)).toBe(2);
    expect(await countOf("ledger_postings", records)).toBe(2);
  });

  test("must be available before a challenge is spent, so the proof can be decided on once after a top-up", async () => {
    const records = await insertRecords(world.db, price - 1);
    const item = itemFor(records);
    expect(await decideOne(item)).toEqual({ kind: "credits_exhausted" });
    expect([await spentOf(records), await countOf("audit_events", records)]).toEqual([0, 0]);
    await world
      .db("balances")
      .where({ account_id: records.accountId })
      .update({ balance_micro_usd: 2 * price });
    expect(await decideOne(item)).toMatchObject({ kind: "decided", decision: "allow" });
    expect(await decideOne({ ...item, eventId: randomUUID() })).toEqual({ kind: "challenge_spent" });
    expect(await balanceOf(records)).toBe(price);
  });

  test("must be available before a challenge is spent that one batch contains twice", async () => {
    const records = await insertRecords(world.db, 0);
    const item = itemFor(records);
    const outcomes = await decideBatch(world.pool, [item, { ...item, eventId: randomUUID() }]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["credits_exhausted", "credits_exhausted"]);
    expect(await spentOf(records)).toBe(0);
  });

  test("does not pay for items whose challenges are already spent", async () => {
    const records = await insertRecords(world.db, 3 * price);
    const spent = [itemFor(records), itemFor(records)];
    await decideBatch(world.pool, spent);
    const again = spent.map((item) => ({ ...item, eventId: randomUUID() }));
    const outcomes = await decideBatch(world.pool, [...again, itemFor(records), itemFor(records)]);
    expect(outcomes.map(({ kind }) => kind)).toEqual([
      "challenge_spent",
      "challenge_spent",
      "decided",
      "credits_exhausted",
    ]);
    expect(await balanceOf(records)).toBe(0);
  });

  test("does not pay for an indeterminate item", async () => {
    const records = await insertRecords(world.db, 2 * price);
    const unknown = itemFor(records, {
      certificates: [{ accountId: records.accountId, certId: "cert-none" }],
    });
    const outcomes = await decideBatch(world.pool, [
      itemFor(records),
      unknown,
      itemFor(records),
      itemFor(records),
    ]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual([
      "decided",
      "decided",
      "decided",
      "credits_exhausted",
    ]);
  });

  test("pays for exactly 1,000 decisions in concurrent mixed batches, without deadlock", async () => {
    const rich = await Promise.all([
      insertRecords(world.db, 10_000 * price),
      insertRecords(world.db, 10_000 * price),
    ]);
    const poor = await insertRecords(world.db, 1_000 * price);
    const connections = Array.from({ length: 8 }, async () => {
      const outcomes = [];
      for (let batch = 0; batch < 20; batch++) {
        const twice = itemFor(rich[batch % 2] as Records);
        const items = [twice, { ...twice, eventId: randomUUID() }, itemFor(rich[(batch + 1) % 2] as Records)];
        for (let n = 0; n < 10; n++) items.splice(batch % items.length, 0, itemFor(poor));
        outcomes.push(
          ...(await decideBatch(world.pool, items)).map((outcome, n) => ({ outcome, item: items[n] })),
        );
      }
      return outcomes;
    });
    const all = (await Promise.all(connections)).flat();
    const ofPoor = all.filter(({ item }) => item?.accountId === poor.accountId);
    expect(ofPoor).toHaveLength(1_600);
    expect(ofPoor.filter(({ outcome }) => outcome.kind === "decided")).toHaveLength(1_000);
    expect(await balanceOf(poor)).toBe(0);
    expect(await countOf("audit_events", poor)).toBe(1_000);
    const ofRich = all.filter(
      ({ item, outcome }) => item?.accountId !== poor.accountId && outcome.kind === "decided",
    );
    expect(ofRich).toHaveLength(320);
    const { rows } = await world.pool.query(
      "select sum(amount_micro_usd)::bigint as total from ledger_entries",
    );
    expect(rows[0].total).toBe(0);
  });
});
