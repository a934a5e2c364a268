import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Database, openDatabase, openPool } from "../../src/db/connection.ts";
import { createBatcher } from "../../src/proofs/batch.ts";
import { type DecisionItem, decideBatch, VERIFICATION_PRICE_MICRO_USD } from "../../src/proofs/decision.ts";
import { createLanes } from "../../src/proofs/lanes.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { insertCertificate, insertRecords, itemFor, type Records } from "./records.ts";

let database: TestDatabase;
let db: Database;
let pool: Pool;

const onError = () => {};
const price = VERIFICATION_PRICE_MICRO_USD;

beforeAll(async () => {
  database = await migratedDatabase();
  db = openDatabase({ url: database.url, name: "test", onError });
  pool = openPool({ url: database.url, name: "test", max: 8, onError });
});

afterAll(async () => {
  await pool.end();
  await db.destroy();
  await database.drop();
});

async function decideOne(item: DecisionItem) {
  const [outcome] = await decideBatch(pool, [item]);
  return outcome;
}

async function balanceOf({ accountId }: Records): Promise<number | undefined> {
  return (await db("balances").where({ account_id: accountId }).first())?.balance_micro_usd;
}

async function countOf(table: "audit_events" | "ledger_postings", { accountId }: Records): Promise<number> {
  return (await db(table).where({ account_id: accountId })).length;
}

async function spentOf({ connectionId }: Records): Promise<number> {
  return (
    (await pool.query("select from spent_challenges where connection_id = $1", [connectionId])).rowCount ?? 0
  );
}

describe("one decision", () => {
  test("an allow leaves one audit row, one posting, one charge and a spent challenge", async () => {
    const records = await insertRecords(db, 10 * price);
    const item = itemFor(records);
    expect(await decideOne(item)).toMatchObject({ kind: "decided", decision: "allow", reason: "authorized" });
    expect(await balanceOf(records)).toBe(9 * price);
    expect(await spentOf(records)).toBe(1);
    const [posting] = await db("ledger_postings").where({ account_id: records.accountId });
    expect(posting).toMatchObject({ posting_id: item.challenge, amount_micro_usd: price });
    const [row] = await db("audit_events").where({ account_id: records.accountId });
    expect(row).toMatchObject({ event_id: item.eventId, event_type: "proof.verified", decision: "allow" });
  });

  test("the receipt is the head, the final decision and the tail, and its hash is that of its bytes", async () => {
    const records = await insertRecords(db, 10 * price);
    const outcome = await decideOne(itemFor(records));
    const row = await db("audit_events").where({ account_id: records.accountId }).first();
    expect(row?.receipt).toBe(
      '{"agent_id":"a","decision":"allow","decision_reason":"authorized","granted_scope":["data:read","payments:send"],"human_id":"h"}',
    );
    const hash = createHash("sha256")
      .update(row?.receipt ?? "")
      .digest();
    expect(row?.receipt_hash?.equals(hash)).toBe(true);
    expect(outcome).toMatchObject({ receiptHash: hash });
  });

  test("a denial of the pure rules is charged and recorded as rejected", async () => {
    const records = await insertRecords(db, price);
    const outcome = await decideOne(itemFor(records, { decision: "deny", reason: "not_delegated" }));
    expect(outcome).toMatchObject({ decision: "deny", reason: "not_delegated" });
    expect(await balanceOf(records)).toBe(0);
    const row = await db("audit_events").where({ account_id: records.accountId }).first();
    expect(row).toMatchObject({ event_type: "proof.rejected", decision_reason: "not_delegated" });
    expect(row?.receipt).toContain('"granted_scope":[]');
  });

  test("a revoked certificate wins over an allow and over a later violation", async () => {
    const records = await insertRecords(db, 10 * price);
    await db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    const revoked = { decision: "deny", reason: "delegation_revoked" };
    expect(await decideOne(itemFor(records))).toMatchObject(revoked);
    expect(await decideOne(itemFor(records, { decision: "deny", reason: "not_delegated" }))).toMatchObject(
      revoked,
    );
  });

  test("a violation that comes before the state is consulted stands", async () => {
    const records = await insertRecords(db, 10 * price);
    await db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    const expired = itemFor(records, { decision: "deny", reason: "delegation_expired", certificates: [] });
    expect(await decideOne(expired)).toMatchObject({ decision: "deny", reason: "delegation_expired" });
  });

  test("a certificate whose state is unknown is indeterminate, recorded, and not charged", async () => {
    const records = await insertRecords(db, 10 * price);
    const certificates = [{ accountId: records.accountId, certId: `cert-${randomUUID()}` }];
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({
      decision: "indeterminate",
      reason: "revocation_state_unavailable",
    });
    expect(await balanceOf(records)).toBe(10 * price);
    expect(await countOf("ledger_postings", records)).toBe(0);
    expect(await countOf("audit_events", records)).toBe(1);
  });

  test("another account's certificate of the same id is not this one's", async () => {
    const [records, other] = [await insertRecords(db, 10 * price), await insertRecords(db, price)];
    const certificates = [{ accountId: records.accountId, certId: other.certId }];
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "indeterminate" });
  });

  test("a scope that the ceiling lost after the approval is denied", async () => {
    const records = await insertRecords(db, 10 * price);
    await db("certificates")
      .where({ cert_id: records.certId })
      .update({ ceiling_scope: ["files:read"] });
    expect(await decideOne(itemFor(records))).toMatchObject({ decision: "deny", reason: "ceiling_exceeded" });
    await db("certificates")
      .where({ cert_id: records.certId })
      .update({ ceiling_scope: ["data:read"] });
    expect(await decideOne(itemFor(records))).toMatchObject({ decision: "allow" });
  });

  test("the last certificate of a chain counts like the first: unknown, revoked and over the ceiling", async () => {
    const records = await insertRecords(db, 10 * price);
    const second = `cert-${randomUUID()}`;
    const certificates = [records.certId, second].map((certId) => ({ accountId: records.accountId, certId }));
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "indeterminate" });
    await insertCertificate(db, records, second);
    await db("certificates")
      .where({ cert_id: second })
      .update({ ceiling_scope: ["payments:send"] });
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ reason: "ceiling_exceeded" });
  });

  test("one revoked certificate of a chain denies", async () => {
    const records = await insertRecords(db, 10 * price);
    const second = `cert-${randomUUID()}`;
    await insertCertificate(db, records, second);
    const certificates = [records.certId, second].map((certId) => ({ accountId: records.accountId, certId }));
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({ decision: "allow" });
    await db("certificates").where({ cert_id: second }).update({ status: "revoked" });
    expect(await decideOne(itemFor(records, { certificates }))).toMatchObject({
      reason: "delegation_revoked",
    });
  });
});

describe("single use", () => {
  test("a challenge decides once; the second is refused, not charged and not recorded", async () => {
    const records = await insertRecords(db, 10 * price);
    const item = itemFor(records);
    await decideOne(item);
    expect(await decideOne({ ...item, eventId: randomUUID() })).toEqual({ kind: "challenge_spent" });
    expect(await balanceOf(records)).toBe(9 * price);
    expect(await countOf("audit_events", records)).toBe(1);
  });

  test("a challenge that stands twice in one batch decides once", async () => {
    const records = await insertRecords(db, 10 * price);
    const item = itemFor(records);
    const outcomes = await decideBatch(pool, [item, { ...item, eventId: randomUUID() }]);
    expect(outcomes.map((outcome) => outcome.kind).sort()).toEqual(["challenge_spent", "decided"]);
    expect(await balanceOf(records)).toBe(9 * price);
  });

  test("32 callers with one challenge in separate statements: one decides", async () => {
    const records = await insertRecords(db, 100 * price);
    const item = itemFor(records);
    const outcomes = await Promise.all(
      Array.from({ length: 32 }, () => decideOne({ ...item, eventId: randomUUID() })),
    );
    expect(outcomes.filter((outcome) => outcome?.kind === "decided")).toHaveLength(1);
    expect(await countOf("audit_events", records)).toBe(1);
    expect(await balanceOf(records)).toBe(99 * price);
  });

  test("the same challenge of two connections is two challenges", async () => {
    const [one, two] = [await insertRecords(db, price), await insertRecords(db, price)];
    const challenge = randomBytes(32);
    const outcomes = await decideBatch(pool, [itemFor(one, { challenge }), itemFor(two, { challenge })]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["decided", "decided"]);
  });
});

describe("credit", () => {
  test("the last affordable decision is made, the next one refused and unrecorded", async () => {
    const records = await insertRecords(db, 2 * price + (price - 1));
    const outcomes = await decideBatch(pool, [itemFor(records), itemFor(records), itemFor(records)]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["decided", "decided", "credits_exhausted"]);
    expect(await balanceOf(records)).toBe(price - 1);
    expect(await countOf("audit_events", records)).toBe(2);
    expect(await countOf("ledger_postings", records)).toBe(2);
  });

  test("an indeterminate in between takes no place in the queue for credit", async () => {
    const records = await insertRecords(db, 2 * price);
    const unknown = itemFor(records, {
      certificates: [{ accountId: records.accountId, certId: "cert-none" }],
    });
    const outcomes = await decideBatch(pool, [itemFor(records), unknown, itemFor(records), itemFor(records)]);
    expect(outcomes.map((outcome) => outcome.kind)).toEqual([
      "decided",
      "decided",
      "decided",
      "credits_exhausted",
    ]);
  });

  test("concurrent mixed batches neither deadlock nor overspend: credit for exactly 1,000 allows 1,000", async () => {
    const rich = await Promise.all([insertRecords(db, 10_000 * price), insertRecords(db, 10_000 * price)]);
    const poor = await insertRecords(db, 1_000 * price);
    const connections = Array.from({ length: 8 }, async () => {
      const outcomes = [];
      for (let batch = 0; batch < 20; batch++) {
        const twice = itemFor(rich[batch % 2] as Records);
        const items = [twice, { ...twice, eventId: randomUUID() }, itemFor(rich[(batch + 1) % 2] as Records)];
        for (let n = 0; n < 10; n++) items.splice(batch % items.length, 0, itemFor(poor));
        outcomes.push(...(await decideBatch(pool, items)).map((outcome, n) => ({ outcome, item: items[n] })));
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
    const { rows } = await pool.query("select sum(amount_micro_usd)::bigint as total from ledger_entries");
    expect(rows[0].total).toBe(0);
  });
});

describe("several accounts in every batch", () => {
  test("eight connections with batches in random order neither deadlock nor overdraw", async () => {
    const accounts = await Promise.all(Array.from({ length: 4 }, () => insertRecords(db, 100 * price)));
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const decided = [];
        for (let batch = 0; batch < 20; batch += 1) {
          const items = Array.from({ length: 16 }, () =>
            itemFor(accounts[Math.floor(Math.random() * 4)] as Records),
          );
          decided.push(...(await decideBatch(pool, items)));
        }
        return decided;
      }),
    );
    expect(outcomes.flat().filter((outcome) => outcome.kind === "decided")).toHaveLength(400);
    for (const account of accounts) expect(await balanceOf(account)).toBe(0);
  });
});

describe("the batcher", () => {
  test("answers each caller with its own item's outcome", async () => {
    const records = await insertRecords(db, 1_000 * price);
    const decide = createBatcher(pool, { maxItems: 16, maxWaitMs: 2, maxStatements: 2, maxQueueMs: 5_000 });
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        decide(itemFor(records, n % 2 === 0 ? {} : { decision: "deny", reason: "not_delegated" })),
      ),
    );
    outcomes.forEach((outcome, n) => {
      expect(outcome).toMatchObject({ decision: n % 2 === 0 ? "allow" : "deny" });
    });
    expect(await countOf("audit_events", records)).toBe(100);
  });

  test("an item that the database refuses does not take its neighbours with it", async () => {
    const records = await insertRecords(db, 1_000 * price);
    const decide = createBatcher(pool, { maxItems: 16, maxWaitMs: 2, maxStatements: 1, maxQueueMs: 5_000 });
    const broken = itemFor(records, { eventId: "not-a-uuid" });
    const results = await Promise.allSettled(
      [itemFor(records), itemFor(records), broken, itemFor(records)].map(decide),
    );
    expect(results.map((result) => result.status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(await countOf("audit_events", records)).toBe(3);
  });
});

describe("a row that somebody else holds", () => {
  async function held(records: Records) {
    const holder = await pool.connect();
    await holder.query("begin");
    await holder.query("select from certificates where cert_id = $1 for update", [records.certId]);
    return async () => {
      await holder.query("commit");
      holder.release();
    };
  }

  test("keeps its own account waiting and no other, and is decided once it is free", async () => {
    const [blocked, other] = [await insertRecords(db, 10 * price), await insertRecords(db, 10 * price)];
    const quick = openPool({ url: database.url, name: "quick", lockMs: 50, onError });
    const patient = openPool({ url: database.url, name: "patient", max: 2, lockMs: 5_000, onError });
    const decide = createLanes(createBatcher(quick), patient);
    const free = await held(blocked);
    let isDecided = false;
    const waiting = decide(itemFor(blocked)).then((outcome) => {
      isDecided = true;
      return outcome;
    });
    const others = await Promise.all(Array.from({ length: 20 }, () => decide(itemFor(other)).catch(String)));
    expect(isDecided).toBe(false);
    expect(
      others.filter((outcome) => typeof outcome === "object" && outcome.kind === "decided"),
    ).toHaveLength(10);
    await free();
    expect(await waiting).toMatchObject({ decision: "allow" });
    await Promise.all([quick.end(), patient.end()]);
  });

  test("that is not free in time leaves its item undecided, unspent and uncharged", async () => {
    const records = await insertRecords(db, 10 * price);
    const quick = openPool({ url: database.url, name: "quick", lockMs: 20, onError });
    const patient = openPool({ url: database.url, name: "patient", max: 2, lockMs: 100, onError });
    const decide = createLanes(createBatcher(quick), patient);
    const free = await held(records);
    await expect(decide(itemFor(records))).rejects.toMatchObject({ code: "55P03" });
    await free();
    expect(await spentOf(records)).toBe(0);
    expect(await balanceOf(records)).toBe(10 * price);
    await Promise.all([quick.end(), patient.end()]);
  });

  test("an item that has waited too long for a statement is refused and never decided", async () => {
    const [records, other] = [await insertRecords(db, 10 * price), await insertRecords(db, 10 * price)];
    const decide = createBatcher(pool, { maxItems: 64, maxWaitMs: 2, maxStatements: 1, maxQueueMs: 100 });
    const free = await held(records);
    const first = decide(itemFor(records));
    await waitForLock();
    const late = decide(itemFor(other));
    const refused = expect(late).rejects.toMatchObject({ code: "unavailable" });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await free();
    await refused;
    expect(await first).toMatchObject({ decision: "allow" });
    expect(await countOf("audit_events", other)).toBe(0);
  });
});

describe("revocation", () => {
  test("waits for a decision that has read the certificate, and is seen by the next one", async () => {
    const records = await insertRecords(db, 10 * price);
    const deciding = await pool.connect();
    await deciding.query("begin");
    await deciding.query("select from certificates where cert_id = $1 for share", [records.certId]);
    let isRevoked = false;
    const revoking = db("certificates")
      .where({ cert_id: records.certId })
      .update({ status: "revoked" })
      .then(() => {
        isRevoked = true;
      });
    const { rows } = await waitForLock();
    expect(rows.length).toBeGreaterThan(0);
    expect(isRevoked).toBe(false);
    await deciding.query("commit");
    deciding.release();
    await revoking;
    expect(await decideOne(itemFor(records))).toMatchObject({ reason: "delegation_revoked" });
  });

  test("a decision that meets a revocation under way waits, and then reads it", async () => {
    const records = await insertRecords(db, 10 * price);
    const revoking = await pool.connect();
    await revoking.query("begin");
    await revoking.query("update certificates set status = 'revoked' where cert_id = $1", [records.certId]);
    const deciding = decideOne(itemFor(records));
    await waitForLock();
    await revoking.query("commit");
    revoking.release();
    expect(await deciding).toMatchObject({ decision: "deny", reason: "delegation_revoked" });
  });
});

/** Until some statement of this database waits for another's row. */
async function waitForLock() {
  for (;;) {
    const blocked = await pool.query(
      "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    if (blocked.rows.length > 0) return blocked;
  }
}
