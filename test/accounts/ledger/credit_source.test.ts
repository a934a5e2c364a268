import { describe, expect, test } from "vitest";
import { creditLevel, VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import {
  type CreditSource,
  createCreditSources,
  type Settled,
  settleSources,
  sliceOf,
} from "../../../src/accounts/ledger/credit_source.ts";
import { readPostings } from "../../../src/accounts/ledger/credits_route.ts";
import { grantCredits } from "../../../src/accounts/ledger/grants.ts";
import { reconcileLedger } from "../../../src/accounts/ledger/reconcile.ts";
import { changeTerms } from "../../../src/accounts/ledger/terms.ts";
import { readAccountEvent } from "../../../src/events/kinds.ts";
import { createBatcher, decideOne } from "../../../src/proofs/admission/batch.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld, placeOf } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";

const world = decisionWorld();
const AMPLE = 1_000_000 * price;
const now = new Date("2026-05-01T10:00:00.000Z");
const inDecisions = (balance: number, lowAt: number) =>
  sliceOf({ balance_micro_usd: balance * price, low_at_micro_usd: lowAt * price }) / price;

/** An account whose ledger explains its credit. */
async function account(credit: number, lowAt = 0): Promise<Records> {
  const records = await insertRecords(world.db, credit);
  const own = { account_id: records.accountId };
  await world.db("balances").where(own).update({ low_at_micro_usd: lowAt });
  await world.db("ledger_postings").insert({
    ...own,
    posted_at: new Date("2025-12-01T00:00:00Z"),
    posting_id: Buffer.from(records.agentId, "hex"),
    kind: "alpha_credit",
    debit_book: "grants",
    credit_book: "credit",
    amount_micro_usd: credit,
  });
  return records;
}

/** Splits the credit of an account: the given decisions to each slice, and the rest to the balance. */
async function split({ accountId }: Records, slices: number[]): Promise<void> {
  await world.db("balances").where({ account_id: accountId }).update({ is_split: true });
  for (const [n, decisions] of slices.entries()) {
    const balance_micro_usd = decisions * price;
    await world.db("balance_slices").insert({ account_id: accountId, slice: n + 1, balance_micro_usd });
    await world
      .db("balances")
      .where({ account_id: accountId })
      .decrement("balance_micro_usd", balance_micro_usd);
  }
}

const settle = async ({ accountId }: Records, former?: CreditSource) =>
  settledOf(await settleSources(world.pool, [accountId], former), accountId);

function settledOf(settled: Settled, accountId: string): CreditSource | undefined {
  const result = settled.get(accountId);
  if (result?.status === "rejected") throw result.reason;
  return result?.value;
}

async function stateOf({ accountId }: Records) {
  const own = { account_id: accountId };
  const balance = await world.db("balances").where(own).first();
  const slices = await world.db("balance_slices").where(own).orderBy("slice").pluck("balance_micro_usd");
  return { balance: balance?.balance_micro_usd, isSplit: balance?.is_split, slices };
}

const eventsOf = async ({ accountId }: Records) =>
  (await world.db("outbox").where({ aggregateid: accountId }).orderBy("aggregate_seq")).map(
    ({ payload }) => readAccountEvent("credits.low", payload).level,
  );

const differencesOf = async ({ accountId }: Records) =>
  (await reconcileLedger(world.db)).differences.filter(({ account_id }) => account_id === accountId);

const itemsFor = (records: Records, count: number) => Array.from({ length: count }, () => itemFor(records));

describe("sliceOf", () => {
  test("returns at most 4,096 decisions, and at most a 32nd of the credit above the next limit", () => {
    expect(inDecisions(10_000_000, 0)).toBe(4_096);
    expect(inDecisions(32 * 1_000 + 2, 0)).toBe(1_000);
    expect(inDecisions(32 * 1_000 + 501, 500)).toBe(1_000);
    expect(inDecisions(32 * 1_000 + 500, 500)).toBe(999);
  });

  test("returns nothing if a slice would pay for less than 128 decisions", () => {
    expect(inDecisions(32 * 128 + 2, 0)).toBe(128);
    expect(inDecisions(32 * 128 + 1, 0)).toBe(0);
    expect(inDecisions(0, 0)).toBe(0);
  });

  test("splits credit below the low mark, but keeps the price of one decision", () => {
    expect(inDecisions(32 * 1_000 + 2, 40_000)).toBe(1_000);
  });
});

describe("settling the source of an account's decisions", () => {
  test("splits ample credit once", async () => {
    const records = await account(AMPLE);
    expect(await settle(records)).toBe("slices");
    expect(await settle(records)).toBe("slices");
    const full = 4_096 * price;
    expect(await stateOf(records)).toEqual({ balance: AMPLE - full, isSplit: true, slices: [full] });
  });

  test("fills an almost empty slice if no slice paid, and adds one if all are full enough", async () => {
    const records = await account(AMPLE);
    await split(records, [200, 127]);
    const again = () => settle(records, "slices");
    expect(await again()).toBe("slices");
    expect((await stateOf(records)).slices).toEqual([200 * price, (4_096 + 127) * price]);
    await again();
    expect((await stateOf(records)).slices).toEqual([200 * price, (4_096 + 127) * price, 4_096 * price]);
    expect(await world.balanceOf(records)).toBe(AMPLE);
  });

  test("adds a slice rather than wait for an almost empty one that is in use", async () => {
    const records = await account(AMPLE);
    await split(records, [1]);
    const held = await world.hold("select from balance_slices where account_id = $1 for update", [
      records.accountId,
    ]);
    await settle(records, "slices");
    await held.commit();
    expect((await stateOf(records)).slices).toEqual([price, 4_096 * price]);
  });

  test("makes at most 64 slices", async () => {
    const records = await account(AMPLE);
    await split(records, Array(63).fill(200));
    for (const former of ["slices", "slices"] as const) await settle(records, former);
    expect((await stateOf(records)).slices).toHaveLength(64);
    expect(await world.balanceOf(records)).toBe(AMPLE);
  });

  test("puts all slices back when the credit comes near a limit", async () => {
    const records = await account(50 * price);
    await split(records, [10, 20]);
    expect(await settle(records, "slices")).toBe("balance");
    expect(await stateOf(records)).toEqual({ balance: 50 * price, isSplit: false, slices: [] });
  });

  test("waits for a decision that charges a slice, and counts what is left", async () => {
    const records = await account(50 * price);
    await split(records, [30]);
    const held = await world.hold(
      "update balance_slices set balance_micro_usd = balance_micro_usd - $2 where account_id = $1",
      [records.accountId, price],
    );
    const settling = settle(records, "slices");
    await world.untilBlocked();
    await held.commit();
    expect(await settling).toBe("balance");
    expect((await stateOf(records)).balance).toBe(49 * price);
  });

  test("finds a slice that was made while it waited for the balance", async () => {
    const records = await account(50 * price);
    await split(records, [1]);
    const held = await world.hold(
      `with made as (insert into balance_slices values ($1, 2, $2))
       update balances set balance_micro_usd = balance_micro_usd - $2 where account_id = $1`,
      [records.accountId, 20 * price],
    );
    const settling = settle(records, "slices");
    await world.untilBlocked();
    await held.commit();
    expect(await settling).toBe("balance");
    expect(await stateOf(records)).toEqual({ balance: 50 * price, isSplit: false, slices: [] });
  });

  test("locks nothing if the account can pay from its source as it is", async () => {
    const [rich, poor] = [await account(AMPLE), await account(50 * price)];
    await settle(rich);
    const held = await world.hold("select from balances where account_id in ($1, $2) for update", [
      rich.accountId,
      poor.accountId,
    ]);
    expect([await settle(rich), await settle(poor)]).toEqual(["slices", "balance"]);
    await held.commit();
  });

  test("returns nothing for an account without a balance", async () => {
    const records = await insertRecords(world.db, 0);
    await world.db("balances").where({ account_id: records.accountId }).delete();
    expect(await settle(records)).toBeUndefined();
    expect(await createBatcher(placeOf(world.pool))(itemFor(records))).toEqual({ kind: "credits_exhausted" });
  });
});

describe("decisions of an account with ample credit", () => {
  test("do not wait for the balance, nor for each other's slices", async () => {
    const records = await account(AMPLE);
    const decide = createBatcher(placeOf(world.pool));
    for (const item of itemsFor(records, 2)) await decide(item);
    const second = { account_id: records.accountId, slice: 2, balance_micro_usd: 64 * price };
    await world.db("balance_slices").insert(second);
    const held = await world.hold(
      "select from balances b join balance_slices s using (account_id) where account_id = $1 and slice = 1 for update",
      [records.accountId],
    );
    const outcomes = await Promise.all(itemsFor(records, 3).map((item) => decide(item)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["decided", "decided", "decided"]);
    await held.commit();
    expect((await stateOf(records)).slices[1]).toBe(61 * price);
  });

  test("charge exactly their price, and reconciliation finds no difference", async () => {
    const records = await account(AMPLE);
    const decide = createBatcher(placeOf(world.pool));
    await Promise.all(itemsFor(records, 150).map((item) => decide(item)));
    expect((await stateOf(records)).isSplit).toBe(true);
    expect(await world.balanceOf(records)).toBe(AMPLE - 150 * price);
    expect(await differencesOf(records)).toEqual([]);
  });

  test("charge a slice only if it pays for the whole batch", async () => {
    const records = await account(AMPLE);
    await split(records, [2, 3]);
    const items = itemsFor(records, 3);
    expect((await decideBatch(world.pool, items, "slices")).map(({ kind }) => kind)).toEqual([
      "decided",
      "decided",
      "decided",
    ]);
    expect((await stateOf(records)).slices).toEqual([2 * price, 0]);
    expect(await decideBatch(world.pool, itemsFor(records, 3), "slices")).toEqual(
      Array(3).fill({ kind: "unfunded" }),
    );
    expect(await world.spentOf(records)).toBe(3);
  });

  test("answer a repeated operation like its first call, which the source could not pay for", async () => {
    const records = await account(10 * price);
    const invocation = { id: "order-1", operationHash: Buffer.alloc(32) };
    const items = [itemFor(records, { invocation }), itemFor(records, { invocation })];
    expect(await decideBatch(world.pool, items, "slices")).toEqual([
      { kind: "unfunded" },
      { kind: "unfunded" },
    ]);
  });
});

describe("when split credit runs out under eight callers", () => {
  test("exactly the paid decisions are made, each limit is announced once, and the balance is never below zero", async () => {
    const records = await account(60 * price, 12 * price);
    await split(records, [9, 7, 5, 3]);
    const callers = Array.from({ length: 8 }, () => createBatcher(placeOf(world.pool)));
    const outcomes = await Promise.all(
      callers.flatMap((decide) => itemsFor(records, 10).map((item) => decide(item))),
    );
    expect(outcomes.filter(({ kind }) => kind === "decided")).toHaveLength(60);
    expect(outcomes.filter(({ kind }) => kind === "credits_exhausted")).toHaveLength(20);
    expect(await stateOf(records)).toEqual({ balance: 0, isSplit: false, slices: [] });
    expect((await eventsOf(records)).at(-1)).toBe("exhausted");
    expect(new Set(await eventsOf(records)).size).toBe((await eventsOf(records)).length);
    expect(await differencesOf(records)).toEqual([]);
  });
});

describe("a grant to an account with slices", () => {
  test("sets the low mark to a fifth of the whole credit", async () => {
    const records = await account(AMPLE);
    await settle(records);
    const grant = {
      accountId: records.accountId,
      amount: 5 * price,
      reason: "paid",
      reference: records.accountId,
    };
    expect(await grantCredits(world.db, grant, now)).toMatchObject({ balance: AMPLE + 5 * price });
    const row = await world.db("account_credit").where({ account_id: records.accountId }).first();
    expect(row).toMatchObject({
      balance_micro_usd: AMPLE + 5 * price,
      low_at_micro_usd: (AMPLE + 5 * price) / 5,
    });
  });
});

describe("a postpaid account", () => {
  const postpaid = { terms: "postpaid", reason: "contract 7" } as const;

  test("needs no credit, and its decisions are posted to be invoiced", async () => {
    const records = await account(2 * price);
    expect(await changeTerms(world.db, { ...records, ...postpaid }, now)).toBe(true);
    const decide = createBatcher(placeOf(world.pool));
    const outcomes = await Promise.all(itemsFor(records, 5).map((item) => decide(item)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array(5).fill("decided"));
    expect(await world.balanceOf(records)).toBe(2 * price);
    const { items } = await readPostings(world.db, records.accountId, { limit: 10 });
    expect(items.map(({ kind, terms, amount_micro_usd }) => [kind, terms, amount_micro_usd])).toEqual([
      ["terms", "postpaid", 0],
      ...Array(5).fill(["verification", "postpaid", -price]),
      ["alpha_credit", undefined, 2 * price],
    ]);
    expect(items[0]?.reason).toBe("contract 7");
    expect(await differencesOf(records)).toEqual([]);
  });

  test("always has enough credit", () => {
    const credit = { balance_micro_usd: 0, low_at_micro_usd: price };
    expect(creditLevel({ ...credit, terms: "prepaid" })).toBe("exhausted");
    expect(creditLevel({ ...credit, terms: "postpaid" })).toBe("enough");
  });

  test("does not wait for its balance row", async () => {
    const records = await account(0.5 * price);
    await changeTerms(world.db, { ...records, ...postpaid }, now);
    const place = placeOf(world.pool);
    await place.sources.settle(world.pool, [records.accountId], "balance");
    const held = await world.hold("select from balances where account_id = $1 for update", [
      records.accountId,
    ]);
    expect(await createBatcher(place)(itemFor(records))).toMatchObject({ kind: "decided" });
    await held.commit();
  });

  test("uses its credit again after it became prepaid, even in a process that knew the former terms", async () => {
    const records = await account(AMPLE);
    const place = placeOf(world.pool);
    await settle(records);
    await changeTerms(world.db, { ...records, ...postpaid }, now);
    expect(await stateOf(records)).toEqual({ balance: AMPLE, isSplit: false, slices: [] });
    const decide = createBatcher(place);
    await decide(itemFor(records));
    expect(place.sources.of(records.accountId)).toBe("invoice");
    await changeTerms(world.db, { ...records, terms: "prepaid", reason: "left" }, now);
    expect(await decide(itemFor(records))).toMatchObject({ kind: "decided" });
    expect(await world.balanceOf(records)).toBe(AMPLE - price);
  });

  test("records nothing if the terms stay the same", async () => {
    const records = await account(0.5 * price);
    const prepaid = { ...records, terms: "prepaid", reason: "again" } as const;
    expect(await changeTerms(world.db, prepaid, now)).toBe(false);
    expect(await world.db("credit_terms").where({ account_id: records.accountId })).toEqual([]);
  });
});

test("a decision in a caller's transaction finds out what its account pays from", async () => {
  const records = await account(AMPLE);
  await settle(records);
  const client = await world.pool.connect();
  await client.query("begin");
  const outcome = await decideOne(client, itemFor(records), placeOf(world.pool));
  await client.query("rollback");
  client.release();
  expect(outcome).toMatchObject({ kind: "decided" });
  expect(await world.balanceOf(records)).toBe(AMPLE);
});

test("a process remembers the source that it settled", async () => {
  const records = await account(AMPLE);
  const sources = createCreditSources();
  expect(sources.of(records.accountId)).toBe("balance");
  await sources.settle(world.pool, [records.accountId], "balance");
  expect(sources.of(records.accountId)).toBe("slices");
});
