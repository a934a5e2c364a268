import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../src/accounts/ledger/amounts.ts";
import { createBatcher, separateSlowAccounts } from "../../src/proofs/admission/batch.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { decisionWorld, placeOf } from "./decision_world.ts";
import { insertRecords, itemFor, type Records } from "./records.ts";

const world = decisionWorld();
/** Credit that can be split into slices. */
const AMPLE = 100_000 * price;
const { openPool, decideOne, balanceOf, countOf, spentOf, hold, untilBlocked } = world;

describe("a row that another transaction has locked", () => {
  const holdCertificate = ({ certId }: Records) =>
    hold("select from certificates where cert_id = $1 for update", [certId]);

  test("delays only the account that owns the row, and the account's item is decided once the row is free", async () => {
    const [blocked, other] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
    ];
    const quick = openPool("quick", { lockMs: 50 });
    const patient = openPool("patient", { max: 2, lockMs: 5_000 });
    const decide = separateSlowAccounts(createBatcher(placeOf(quick)), placeOf(patient));
    const held = await holdCertificate(blocked);
    let isDecided = false;
    const onHeld = vi.fn();
    const waiting = decide(itemFor(blocked), onHeld).then((outcome) => {
      isDecided = true;
      return outcome;
    });
    const notHeld = vi.fn();
    const others = await Promise.all(
      Array.from({ length: 20 }, () => decide(itemFor(other), notHeld).catch(String)),
    );
    await vi.waitFor(() => expect(onHeld).toHaveBeenCalledOnce(), 10_000);
    expect([isDecided, notHeld.mock.calls.length]).toEqual([false, 0]);
    expect(
      others.filter((outcome) => typeof outcome === "object" && outcome.kind === "decided"),
    ).toHaveLength(10);
    await held.commit();
    expect(await waiting).toMatchObject({ decision: "allow" });
  });

  test("leaves an item that needs the row undecided, unspent and uncharged if the row is not free in time", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const quick = openPool("quick", { lockMs: 20 });
    const patient = openPool("patient", { max: 2, lockMs: 100 });
    const decide = separateSlowAccounts(createBatcher(placeOf(quick)), placeOf(patient));
    const held = await holdCertificate(records);
    await expect(decide(itemFor(records))).rejects.toMatchObject({ code: "55P03" });
    await held.commit();
    expect(await spentOf(records)).toBe(0);
    expect(await balanceOf(records)).toBe(10 * price);
  });

  test("keeps the next decisions of the account, and other decisions about the locked certificate, out of the batches", async () => {
    const [blocked, other, third] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
    ];
    const batched = vi.fn(createBatcher(placeOf(openPool("quick", { lockMs: 50 }))));
    const decide = separateSlowAccounts(batched, placeOf(openPool("patient", { max: 4, lockMs: 10_000 })));
    const held = await holdCertificate(blocked);
    const first = itemFor(blocked);
    const waiting = [decide(first)];
    await vi.waitFor(() => expect(batched.mock.settledResults[0]?.type).toBe("rejected"), 10_000);
    const next = itemFor(blocked, { certificates: [] });
    const foreign = itemFor(other, { certificates: first.certificates });
    waiting.push(decide(next), decide(foreign));
    const free = itemFor(third);
    expect(await decide(free)).toMatchObject({ decision: "allow" });
    await held.commit();
    expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(["decided", "decided", "decided"]);
    expect(batched.mock.calls.map(([item]) => item)).toEqual([first, free]);
  });

  test("delays no other account while an account's credit is split", async () => {
    const [held, other] = [await insertRecords(world.db, AMPLE), await insertRecords(world.db, AMPLE)];
    const place = placeOf(openPool("quick", { lockMs: 50 }));
    for (const { accountId } of [held, other]) place.sources.onAmple(accountId);
    const lock = await hold("select from balances where account_id = $1 for update", [held.accountId]);
    const decide = createBatcher(place, {
      maxItems: 64,
      maxWaitMs: 1_000,
      maxStatements: 1,
      maxQueueMs: 60_000,
    });
    const [refused, decided] = await Promise.allSettled([decide(itemFor(held)), decide(itemFor(other))]);
    await lock.commit();
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "55P03" } });
    expect(decided).toMatchObject({ status: "fulfilled", value: { kind: "decided" } });
  });

  test("lets the decisions of its account wait together, in one statement at a time", async () => {
    const records = await insertRecords(world.db, 100 * price);
    const patient = openPool("patient", { max: 4, lockMs: 10_000 });
    const sent = vi.spyOn(patient, "query");
    const quick = createBatcher(placeOf(openPool("quick", { lockMs: 50 })));
    const decide = separateSlowAccounts(quick, placeOf(patient));
    const held = await holdCertificate(records);
    const first = decide(itemFor(records));
    await vi.waitFor(() => expect(sent).toHaveBeenCalledOnce(), 10_000);
    const waiting = [first, ...Array.from({ length: 30 }, () => decide(itemFor(records)))];
    await untilBlocked();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(sent).toHaveBeenCalledTimes(1);
    await held.commit();
    const kinds = (await Promise.all(waiting)).map(({ kind }) => kind);
    expect(kinds).toEqual(Array(31).fill("decided"));
    expect(sent).toHaveBeenCalledTimes(2);
  });

  test("makes the batcher refuse an item that waited too long for a statement, and never decide it", async () => {
    const [records, other] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
    ];
    const decide = createBatcher(placeOf(world.pool), {
      maxItems: 64,
      maxWaitMs: 2,
      maxStatements: 1,
      maxQueueMs: 100,
    });
    const held = await holdCertificate(records);
    const first = decide(itemFor(records));
    await untilBlocked();
    const late = decide(itemFor(other));
    const refused = expect(late).rejects.toMatchObject({ code: "unavailable" });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await held.commit();
    await refused;
    expect(await first).toMatchObject({ decision: "allow" });
    expect(await countOf("audit_events", other)).toBe(0);
  });
});

describe("the batcher", () => {
  test("does not repeat a statement whose connection was lost, because the statement may have decided its items", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const held = await hold("select from certificates where cert_id = $1 for update", [records.certId]);
    const cut = openPool("cut", { max: 1, lockMs: 10_000 });
    const decide = separateSlowAccounts(
      createBatcher(placeOf(cut)),
      placeOf(openPool("patient", { lockMs: 100 })),
    );
    const deciding = decide(itemFor(records));
    const refused = expect(deciding).rejects.toMatchObject({ code: "57P01" });
    await untilBlocked();
    await world.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'cut'`,
    );
    await refused;
    await held.commit();
    expect(await spentOf(records)).toBe(0);
  });
});

describe("a revocation", () => {
  test("waits for a decision that has read the certificate, and applies to the next decision", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const deciding = await world.pool.connect();
    await deciding.query("begin");
    const [outcome] = await decideBatch(deciding, [itemFor(records)]);
    let isRevoked = false;
    const revoking = world
      .db("certificates")
      .where({ cert_id: records.certId })
      .update({ status: "revoked" })
      .then(() => {
        isRevoked = true;
      });
    await untilBlocked();
    expect(isRevoked).toBe(false);
    await deciding.query("commit");
    deciding.release();
    await revoking;
    expect(outcome).toMatchObject({ decision: "allow" });
    expect(await decideOne(itemFor(records))).toMatchObject({ reason: "delegation_revoked" });
  });

  test("makes a concurrent decision wait for the commit, and then applies to this decision", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const revoking = await hold("update certificates set status = 'revoked' where cert_id = $1", [
      records.certId,
    ]);
    const deciding = decideOne(itemFor(records));
    await untilBlocked();
    await revoking.commit();
    expect(await deciding).toMatchObject({ decision: "deny", reason: "delegation_revoked" });
  });
});

describe("a decision while a second transaction changes the credit", () => {
  const setBalance = (records: Records, balance: number) =>
    hold("update balances set balance_micro_usd = $2 where account_id = $1", [records.accountId, balance]);

  test.each([
    ["fails if the other transaction uses up the credit", 5 * price, 0, "credits_exhausted", 0],
    ["succeeds if the other transaction tops up the credit", 0, 5 * price, "decided", 4 * price],
  ])("%s", async (_, before, meanwhile, kind, after) => {
    const records = await insertRecords(world.db, before);
    const spending = await setBalance(records, meanwhile);
    const deciding = decideOne(itemFor(records));
    await untilBlocked();
    await spending.commit();
    expect(await deciding).toMatchObject({ kind });
    expect(await balanceOf(records)).toBe(after);
  });
});

describe("a batch that waits for a locked row has locked all rows with smaller keys, and no rows with greater keys", () => {
  // The test inserts rows in descending key order and requests them in a third order, so neither of these
  // orders can explain the order of the locks.
  const keys = [7, 6, 5, 4, 3, 2, 1, 0].map((n) => `${n}0000000-0000-4000-8000-000000000000`);
  const [middle, greater] = [keys[4], keys.slice(0, 4)];
  let accounts: Records[];
  let items: DecisionItem[];

  beforeAll(async () => {
    accounts = [];
    for (const key of keys) {
      const ids = { accountId: key, connectionId: key, certId: `cert-${key}` };
      accounts.push(await insertRecords(world.db, 100 * price, ids));
    }
  });

  beforeEach(() => {
    const asked = [5, 2, 7, 0, 6, 3, 1, 4].map((n) => accounts[n] as Records);
    items = asked.map((records) => itemFor(records));
  });

  test.each([
    ["balances", "update"],
    ["certificates", "no key update"],
  ])("in the table %s", async (table, lock) => {
    const held = await hold(`select from ${table} where account_id = $1 for update`, [middle]);
    const deciding = decideBatch(world.pool, items);
    await untilBlocked();
    const { rows } = await world.pool.query<{ account_id: string }>(
      `select account_id from ${table} where account_id = any ($1) for ${lock} skip locked`,
      [keys],
    );
    await held.commit();
    expect((await deciding).map(({ kind }) => kind)).toEqual(items.map(() => "decided"));
    expect(rows.map((row) => row.account_id).sort()).toEqual([...greater].sort());
  });

  test("in the table spent_challenges", async () => {
    const insert = `insert into spent_challenges (connection_id, expires_at, challenge)
                    select * from unnest($1::uuid[], $2::timestamptz[], $3::bytea[])`;
    const columns = (of: DecisionItem[]) => [
      of.map(({ connectionId }) => connectionId),
      of.map(({ challengeExpiresAt }) => challengeExpiresAt),
      of.map(({ challenge }) => challenge),
    ];
    const of = (connections: unknown[]) =>
      items.filter(({ connectionId }) => connections.includes(connectionId));
    const held = await hold(insert, columns(of([middle])));
    const impatient = openPool("impatient", { max: 1, lockMs: 1_000 });
    const deciding = decideBatch(world.pool, items);
    await untilBlocked();
    await impatient.query("begin");
    expect((await impatient.query(insert, columns(of(greater)))).rowCount).toBe(greater.length);
    await impatient.query("rollback");
    await held.commit();
    const spent = (await deciding).flatMap(({ kind }, n) => (kind === "challenge_spent" ? [items[n]] : []));
    expect(spent).toEqual(of([middle]));
  });
});
