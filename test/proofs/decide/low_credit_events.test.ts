import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { readAccountEvent } from "../../../src/events/kinds.ts";
import { shardOf } from "../../../src/events/outbox.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();

async function account(decisions: number, lowAt: number): Promise<Records> {
  const records = await insertRecords(world.db, decisions * price);
  await world
    .db("balances")
    .where({ account_id: records.accountId })
    .update({ low_at_micro_usd: lowAt * price });
  return records;
}

const decide = (records: Records, times: number) =>
  decideBatch(
    world.pool,
    Array.from({ length: times }, () => itemFor(records)),
  );

/** Returns the level of each `credits.low` event, with the remaining credit in decisions. */
async function announced({ accountId }: Records): Promise<string[]> {
  const rows = await world.db("outbox").where({ aggregateid: accountId }).orderBy("aggregate_seq");
  expect(rows.map(({ aggregate_seq }) => aggregate_seq)).toEqual(rows.map((_, n) => n + 1));
  return rows.map(({ payload }) => {
    const { level, balance_micro_usd } = readAccountEvent("credits.low", payload);
    return `${level} ${balance_micro_usd / price}`;
  });
}

test("credits.low is sent once when the balance reaches the low-credit mark, and not again below the mark", async () => {
  const records = await account(10, 2);
  await decide(records, 7);
  expect(await announced(records)).toEqual([]);
  await decide(records, 1);
  expect(await announced(records)).toEqual(["low 2"]);
  await decide(records, 1);
  expect(await announced(records)).toEqual(["low 2"]);
});

test("credits.low is sent for the last affordable decision, but not for refusals after it", async () => {
  const records = await account(10, 2);
  await decide(records, 9);
  await decide(records, 1);
  expect(await announced(records)).toEqual(["low 1", "exhausted 0"]);
  const [refused] = await decide(records, 1);
  expect(refused?.kind).toBe("credits_exhausted");
  expect(await announced(records)).toEqual(["low 1", "exhausted 0"]);
});

test("credits.low reports the lower mark if a batch takes the balance past both marks", async () => {
  const records = await account(10, 2);
  const outcomes = await decide(records, 12);
  expect(outcomes.filter(({ kind }) => kind === "decided")).toHaveLength(10);
  expect(await announced(records)).toEqual(["exhausted 0"]);
});

test("credits.low reports a remainder below the price as exhausted", async () => {
  const records = await account(2, 0);
  await world.db("balances").where({ account_id: records.accountId }).decrement("balance_micro_usd", 1);
  await decide(records, 2);
  expect(await announced(records)).toEqual([`exhausted ${(price - 1) / price}`]);
});

test("credits.low is caused by denials, which are charged, but not by indeterminate or repeated proofs", async () => {
  const records = await account(3, 2);
  const unknown = { accountId: records.accountId, certId: "cert-unknown" };
  await decideBatch(world.pool, [itemFor(records, { certificates: [unknown] })]);
  expect(await announced(records)).toEqual([]);
  const denied = itemFor(records, { decision: "deny", reason: "not_delegated" });
  await decideBatch(world.pool, [denied]);
  await decideBatch(world.pool, [{ ...denied, eventId: randomUUID() }]);
  expect(await announced(records)).toEqual(["low 2"]);
});

test("credits.low has the shard of the account, the time of the decision and all fields of the event's schema", async () => {
  const records = await account(2, 1);
  const decidedAt = new Date("2026-03-01T10:20:30.045Z");
  await decideBatch(world.pool, [itemFor(records, { decidedAt })]);
  const [row, ...others] = await world.db("outbox").where({ aggregateid: records.accountId });
  expect(others).toEqual([]);
  expect(row).toMatchObject({
    aggregatetype: "account",
    type: "credits.low",
    schema_version: 1,
    shard: shardOf(records.accountId),
    headers: {},
    created_at: decidedAt,
  });
  expect(readAccountEvent("credits.low", row?.payload ?? "")).toEqual({
    type: "credits.low",
    account_id: records.accountId,
    level: "low",
    balance_micro_usd: price,
    low_at_micro_usd: price,
    price_micro_usd: price,
    occurred_at: "2026-03-01T10:20:30.045Z",
  });
});

test("credits.low has the trace of the decision that caused it", async () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const records = await account(2, 1);
  await decideBatch(world.pool, [itemFor(records, { traceparent })]);
  const [row] = await world.db("outbox").where({ aggregateid: records.accountId });
  expect(row?.headers).toEqual({ traceparent });
});

test("credits.low is not sent for a statement that is rolled back, and the next event gets the unused number", async () => {
  const records = await account(2, 1);
  const client = await world.pool.connect();
  await client.query("begin");
  await decideBatch(client, [itemFor(records)]);
  await client.query("rollback");
  client.release();
  expect(await announced(records)).toEqual([]);
  await decide(records, 1);
  expect(await announced(records)).toEqual(["low 1"]);
});

test("credits.low is sent once for each mark of each account, even if many statements run concurrently", async () => {
  const accounts = await Promise.all(Array.from({ length: 4 }, () => account(40, 8)));
  await Promise.all(
    Array.from({ length: 60 }, (_, n) => {
      const order = n % 2 === 0 ? accounts : accounts.toReversed();
      return decideBatch(
        world.pool,
        order.map((records) => itemFor(records)),
      );
    }),
  );
  for (const records of accounts) {
    expect(await announced(records)).toEqual(["low 8", "exhausted 0"]);
    expect(await world.balanceOf(records)).toBe(0);
  }
});
