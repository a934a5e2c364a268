import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { systemClock } from "../../../src/clock.ts";
import { createGuards } from "../../../src/proofs/admission/admission.ts";
import { createBatcher } from "../../../src/proofs/admission/batch.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld, placeOf } from "../decision_world.ts";
import { insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();
const { balanceOf, countOf } = world;

describe("concurrent batches with several accounts", () => {
  test("neither deadlock nor overdraw credit if eight connections send items in random order", async () => {
    const accounts = await Promise.all(Array.from({ length: 4 }, () => insertRecords(world.db, 100 * price)));
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const decided = [];
        for (let batch = 0; batch < 20; batch += 1) {
          const items = Array.from({ length: 16 }, () =>
            itemFor(accounts[Math.floor(Math.random() * 4)] as Records),
          );
          decided.push(...(await decideBatch(world.pool, items)));
        }
        return decided;
      }),
    );
    expect(outcomes.flat().filter((outcome) => outcome.kind === "decided")).toHaveLength(400);
    for (const account of accounts) expect(await balanceOf(account)).toBe(0);
  });
});

describe("the batcher", () => {
  test("answers each caller with the outcome of the caller's item", async () => {
    const records = await insertRecords(world.db, 1_000 * price);
    const decide = createBatcher(placeOf(world.pool), {
      maxItems: 16,
      maxWaitMs: 2,
      maxStatements: 2,
      maxQueueMs: 5_000,
    });
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

  test("decides the other items in a batch if the database rejects one item", async () => {
    const records = await insertRecords(world.db, 1_000 * price);
    const decide = createBatcher(placeOf(world.pool), {
      maxItems: 16,
      maxWaitMs: 2,
      maxStatements: 1,
      maxQueueMs: 5_000,
    });
    const broken = itemFor(records, { eventId: "not-a-uuid" });
    const results = await Promise.allSettled(
      [itemFor(records), itemFor(records), broken, itemFor(records)].map((item) => decide(item)),
    );
    expect(results.map((result) => result.status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(await countOf("audit_events", records)).toBe(3);
  });

  test("sends a batch again in at most eight parts for each refusal, if one of its 40 accounts has a locked row", async () => {
    const accounts = await Promise.all(Array.from({ length: 40 }, () => insertRecords(world.db, 5 * price)));
    const pool = world.openPool("quick", { lockMs: 50 });
    const sent = vi.spyOn(pool, "query");
    const limits = { maxItems: 64, maxWaitMs: 1_000, maxStatements: 1, maxQueueMs: 60_000 };
    const decide = createBatcher(placeOf(pool), limits);
    const [slow] = accounts as [Records];
    const held = await world.hold("select from balances where account_id = $1 for update", [slow.accountId]);
    const items = accounts.flatMap((records) =>
      (records === slow ? [0, 1, 2] : [0]).map(() => itemFor(records)),
    );
    const ended = await Promise.allSettled(items.map((item) => decide(item)));
    await held.commit();
    const failed = ended.flatMap(({ status }, n) => (status === "rejected" ? [items[n]?.accountId] : []));
    expect(failed).toEqual(Array(3).fill(slow.accountId));
    // The whole batch, then eight groups of five accounts, then the five accounts of the refused group.
    expect(sent).toHaveBeenCalledTimes(1 + 8 + 5);
  });

  test("finds the one bad item of 64 by halving the items of its account", async () => {
    const records = await insertRecords(world.db, 100 * price);
    const pool = world.openPool("halves");
    const sent = vi.spyOn(pool, "query");
    const limits = { maxItems: 64, maxWaitMs: 1_000, maxStatements: 1, maxQueueMs: 60_000 };
    const decide = createBatcher(placeOf(pool), limits);
    const items = Array.from({ length: 64 }, (_, n) =>
      itemFor(records, n === 37 ? { eventId: "no id" } : {}),
    );
    const ended = await Promise.allSettled(items.map((item) => decide(item)));
    expect(ended.findIndex(({ status }) => status === "rejected")).toBe(37);
    expect(ended.filter(({ status }) => status === "fulfilled")).toHaveLength(63);
    expect(await countOf("audit_events", records)).toBe(63);
    // The batch twice, and then two halves at each of six levels.
    expect(sent).toHaveBeenCalledTimes(2 + 2 * 6);
  });

  test("refuses an item that waited too long for a statement, and never decides this item", async () => {
    const [slow, late] = [await insertRecords(world.db, price), await insertRecords(world.db, price)];
    const limits = { maxItems: 1, maxWaitMs: 1, maxStatements: 1, maxQueueMs: 50 };
    const decide = createBatcher(placeOf(world.pool), limits);
    const held = await world.hold("select from balances where account_id = $1 for update", [slow.accountId]);
    const first = decide(itemFor(slow));
    await world.untilBlocked();
    const second = Promise.allSettled([decide(itemFor(late))]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await held.commit();
    expect(await first).toMatchObject({ decision: "allow" });
    expect(await second).toMatchObject([{ status: "rejected", reason: { code: "unavailable" } }]);
    expect(await countOf("audit_events", late)).toBe(0);
  });

  test.each([
    ["sends an item that waited five seconds for a statement", 5_000, "3 statements"],
    ["refuses an item that waited longer", 5_001, "unavailable"],
  ])("by default %s", async (_, waitedMs, expected) => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const ends: (() => void)[] = [];
    const query = () => new Promise((_, reject) => ends.push(() => reject(new Error("ended"))));
    const decide = createBatcher(placeOf({ query } as unknown as Pool));
    const records = await insertRecords(world.db, price);
    const refused: unknown[] = [];
    const decideOne = () => void decide(itemFor(records)).catch(({ code }) => code && refused.push(code));
    for (const statements of [1, 2]) {
      decideOne();
      await expect.poll(() => ends.length).toBe(statements);
    }
    decideOne();
    vi.advanceTimersByTime(waitedMs);
    ends[0]?.();
    await expect.poll(() => refused[0] ?? `${ends.length} statements`).toBe(expected);
    for (const end of ends) end();
  });

  describe("while calls are at work", () => {
    const limits = { maxItems: 64, maxWaitMs: 60_000, maxStatements: 1, maxQueueMs: 120_000 };

    async function batcherFor(callsAtWork: number, maxWaitMs = limits.maxWaitMs) {
      const records = await insertRecords(world.db, 100 * price);
      const pool = world.openPool("gathered");
      const sent = vi.spyOn(pool, "query");
      const decide = createBatcher(placeOf(pool), { ...limits, maxWaitMs }, () => callsAtWork);
      return { sent, decideOne: () => decide(itemFor(records)) };
    }

    test("waits until all of them have arrived before it sends a small batch", async () => {
      const { sent, decideOne } = await batcherFor(3);
      const two = [decideOne(), decideOne()];
      await sleep(20);
      expect(sent).not.toHaveBeenCalled();
      await Promise.all([...two, decideOne()]);
      expect(sent).toHaveBeenCalledTimes(1);
    });

    test("sends a batch of eight items immediately", async () => {
      const { sent, decideOne } = await batcherFor(64);
      const seven = Array.from({ length: 7 }, decideOne);
      await sleep(20);
      expect(sent).not.toHaveBeenCalled();
      await Promise.all([...seven, decideOne()]);
      expect(sent).toHaveBeenCalledTimes(1);
    });

    test("sends a small batch after the longest wait if the other calls bring nothing", async () => {
      const { decideOne } = await batcherFor(2, 5);
      expect(await decideOne()).toMatchObject({ decision: "allow" });
    });

    test("sends what has waited for a statement when that ends, if no other call is at work", async () => {
      const { sent, decideOne } = await batcherFor(1);
      const first = decideOne();
      await expect.poll(() => sent.mock.calls.length).toBe(1);
      await Promise.all([first, decideOne()]);
      expect(sent).toHaveBeenCalledTimes(2);
    });
  });

  test("waits for the calls that the decision queue runs", async () => {
    const records = await insertRecords(world.db, 100 * price);
    const decisions = world.openPool("queued");
    const sent = vi.spyOn(decisions, "query");
    const { pool, db } = world;
    const pools = { decisions, patient: pool, rated: pool };
    const guards = createGuards({ db, ...pools, queue: { running: 2 }, perMinute: 60, clock: systemClock });
    const first = guards.decide(itemFor(records));
    await new Promise(setImmediate);
    await Promise.all([first, guards.decide(itemFor(records))]);
    expect(sent).toHaveBeenCalledTimes(1);
  });

  async function behindHeldRow(maxWaitMs: number) {
    const [slow, free] = await Promise.all([
      insertRecords(world.db, 1_000 * price),
      insertRecords(world.db, 1_000 * price),
    ]);
    const pool = world.openPool("batches");
    const sent = vi.spyOn(pool, "query");
    const decide = createBatcher(placeOf(pool), {
      maxItems: 8,
      maxWaitMs,
      maxStatements: 2,
      maxQueueMs: 60_000,
    });
    const held = await world.hold("select from balances where account_id = $1 for update", [slow.accountId]);
    const first = decide(itemFor(slow));
    await world.untilBlocked();
    return { sent, first, held, decideOther: () => decide(itemFor(free)) };
  }

  test("collects items for the next statement while one is running, and sends only a full batch in parallel", async () => {
    const { sent, first, held, decideOther } = await behindHeldRow(60_000);
    const seven = Array.from({ length: 7 }, decideOther);
    await sleep(50);
    expect(sent).toHaveBeenCalledTimes(1);
    const eight = [...seven, decideOther()];
    for (const outcome of await Promise.all(eight)) expect(outcome).toMatchObject({ decision: "allow" });
    expect(sent).toHaveBeenCalledTimes(2);
    const last = [decideOther(), decideOther()];
    await held.commit();
    for (const outcome of await Promise.all([first, ...last])) {
      expect(outcome).toMatchObject({ decision: "allow" });
    }
    expect(sent).toHaveBeenCalledTimes(3);
  });

  test("sends a second batch, even if it is not full, while the first statement takes long", async () => {
    const { first, held, decideOther } = await behindHeldRow(20);
    expect(await decideOther()).toMatchObject({ decision: "allow" });
    await held.commit();
    expect(await first).toMatchObject({ decision: "allow" });
  });
});
