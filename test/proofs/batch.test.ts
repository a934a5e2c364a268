import { describe, expect, test } from "vitest";
import { createBatcher } from "../../src/proofs/batch.ts";
import { decideBatch, VERIFICATION_PRICE_MICRO_USD as price } from "../../src/proofs/decision.ts";
import { decisionWorld } from "./decision_world.ts";
import { insertRecords, itemFor, type Records } from "./records.ts";

const world = decisionWorld();
const { balanceOf, countOf } = world;

describe("several accounts in every batch", () => {
  test("eight connections with batches in random order neither deadlock nor overdraw", async () => {
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
  test("answers each caller with its own item's outcome", async () => {
    const records = await insertRecords(world.db, 1_000 * price);
    const decide = createBatcher(world.pool, {
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

  test("an item that the database refuses does not take its neighbours with it", async () => {
    const records = await insertRecords(world.db, 1_000 * price);
    const decide = createBatcher(world.pool, {
      maxItems: 16,
      maxWaitMs: 2,
      maxStatements: 1,
      maxQueueMs: 5_000,
    });
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
