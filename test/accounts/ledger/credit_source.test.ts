import { describe, expect, test, vi } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { createCreditSources, sliceOf } from "../../../src/accounts/ledger/credit_source.ts";
import { grantCredits } from "../../../src/accounts/ledger/grants.ts";
import { readAccountEvent } from "../../../src/events/kinds.ts";
import { createBatcher } from "../../../src/proofs/admission/batch.ts";
import { decideOne } from "../../../src/proofs/admission/held_credit.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import { decisionWorld, placeOf } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";
import { AMPLE, creditOf, itemsFor } from "./credit_world.ts";

const world = decisionWorld();
const { account, split, settle, stateOf, differencesOf } = creditOf(world);
const SLICES = { status: "fulfilled", value: "slices" } as const;
const now = new Date("2026-05-01T10:00:00.000Z");
const inDecisions = (balance: number, lowAt: number) =>
  sliceOf({ balance_micro_usd: balance * price, low_at_micro_usd: lowAt * price }) / price;

const eventsOf = async ({ accountId }: Records) =>
  (await world.db("outbox").where({ aggregateid: accountId }).orderBy("aggregate_seq")).map(
    ({ payload }) => readAccountEvent("credits.low", payload).level,
  );

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

  test("keeps the slices near a limit while one of them has credit for a batch", async () => {
    const records = await account(300 * price);
    await split(records, [100, 128]);
    expect(await settle(records, "slices")).toBe("busy");
    expect((await stateOf(records)).slices).toEqual([100 * price, 128 * price]);
    await world
      .db("balance_slices")
      .where({ account_id: records.accountId, slice: 2 })
      .decrement("balance_micro_usd", price);
    expect(await settle(records, "slices")).toBe("balance");
    expect((await stateOf(records)).balance).toBe(299 * price);
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

  const holdSlices = ({ accountId }: Records) =>
    world.hold("select from balance_slices where account_id = $1 for update", [accountId]);

  test("find a slice although 200 statements of other replicas use one each", async () => {
    const records = await account(AMPLE);
    await split(records, Array(200).fill(200));
    const held = await holdSlices(records);
    const outcomes = await Promise.all(
      itemsFor(records, 3).map((item) => createBatcher(placeOf(world.pool))(item)),
    );
    await held.commit();
    expect(outcomes.map(({ kind }) => kind)).toEqual(["decided", "decided", "decided"]);
    expect(await world.balanceOf(records)).toBe(AMPLE - 3 * price);
  });

  test("wait for a slice if all are in use and hold all credit above the limit", async () => {
    const records = await account(20_000 * price);
    await split(records, Array(70).fill(280));
    const held = await holdSlices(records);
    const deciding = createBatcher(placeOf(world.pool))(itemFor(records));
    await world.untilBlocked();
    await held.commit();
    expect(await deciding).toMatchObject({ kind: "decided" });
    const { isSplit, slices, balance } = await stateOf(records);
    expect([isSplit, slices.length, balance]).toEqual([true, 70, 400 * price]);
    expect(await world.balanceOf(records)).toBe(19_999 * price);
  });

  test.each([
    ["a batch", (records: Records) => createBatcher(placeOf(world.pool))(itemFor(records))],
    ["a caller's transaction", (records: Records) => decideInTransaction(records)],
  ])("in %s charge the slice for which they waited, although others wait for it too", async (_, decide) => {
    const records = await account(300 * price);
    await split(records, [200]);
    const held = await holdSlices(records);
    const deciding = decide(records);
    await world.untilBlocked();
    const next = holdSlices(records);
    await world.untilBlocked(2);
    await held.commit();
    const last = await next;
    expect(await world.balanceOf(records)).toBe(299 * price);
    await last.commit();
    expect(await deciding).toMatchObject({ kind: "decided" });
  });

  test("charge the balance if others take three sources in a row", async () => {
    const records = await account(AMPLE);
    const place = placeOf(world.pool);
    const settle = vi.fn(async () => new Map([[records.accountId, SLICES]]));
    expect(
      await createBatcher({ ...place, sources: { ...place.sources, of: () => "slices", settle } })(
        itemFor(records),
      ),
    ).toMatchObject({ kind: "decided" });
    expect(settle).toHaveBeenCalledTimes(3);
    expect(await stateOf(records)).toEqual({ balance: AMPLE - price, isSplit: false, slices: [] });
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

  test.each(["slices", "invoice"] as const)(
    "charge nothing for an unknown certificate, even if the source %s does not pay",
    async (source) => {
      const records = await account(10 * price);
      const unknown = [{ accountId: records.accountId, certId: "cert-unknown" }];
      const items = [itemFor(records, { certificates: unknown }), itemFor(records)];
      expect(await decideBatch(world.pool, items, source)).toMatchObject([
        { kind: "decided", decision: "indeterminate" },
        { kind: "unfunded" },
      ]);
      expect(await world.balanceOf(records)).toBe(10 * price);
    },
  );

  test("answer a spent challenge as spent, also if no slice pays", async () => {
    const records = await account(10 * price);
    const place = placeOf(world.pool);
    const [item] = itemsFor(records, 1) as [DecisionItem];
    expect(await createBatcher(place)(item)).toMatchObject({ kind: "decided" });
    place.sources.onAmple(records.accountId);
    expect(await createBatcher(place)(item)).toEqual({ kind: "challenge_spent" });
    expect(await world.balanceOf(records)).toBe(9 * price);
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

async function decideInTransaction(records: Records, end: "commit" | "rollback" = "commit") {
  const client = await world.pool.connect();
  try {
    await client.query("begin");
    const outcome = await decideOne(client, itemFor(records), placeOf(world.pool));
    await client.query(end);
    return outcome;
  } finally {
    client.release();
  }
}

test("a decision in a caller's transaction finds out what its account pays from", async () => {
  const records = await account(AMPLE);
  await settle(records);
  expect(await decideInTransaction(records, "rollback")).toMatchObject({ kind: "decided" });
  expect(await world.balanceOf(records)).toBe(AMPLE);
});

test("a process remembers the source that it settled", async () => {
  const records = await account(AMPLE);
  const sources = createCreditSources();
  expect(sources.of(records.accountId)).toBe("balance");
  await sources.settle(world.pool, [records.accountId], "balance");
  expect(sources.of(records.accountId)).toBe("slices");
});
