import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { removeOld } from "../../src/events/retention.ts";
import { endpointIdOf, resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import { resendDelivery } from "../../src/webhooks/resend_and_recover.ts";
import { FRESH_HEALTH } from "../../src/webhooks/retries_and_suspension.ts";
import { insertDelivery, insertRecovery } from "../support/deliveries.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";

const home = useDatabase();
const now = new Date("2026-03-31T00:00:00.000Z");
const ago = (days: number, seconds = 0) => addSeconds(now, -days * 86_400 - seconds);

test("removeOld deletes inbox entries after 14 days", async () => {
  const entry = (handledAt: Date) => ({ consumer: "test", event_id: randomUUID(), handled_at: handledAt });
  const [old, kept] = [entry(ago(14, 1)), entry(ago(14))];
  await home.database("inbox").insert([old, kept]);
  await removeOld(home.database, now);
  expect(await home.database("inbox").where({ consumer: "test" }).pluck("event_id")).toEqual([kept.event_id]);
});

test("removeOld deletes finished deliveries with their attempts after 30 days, and cancels held deliveries", async () => {
  const { connectionId } = await makeConnection(home.database, null);
  const endpointId = endpointIdOf(connectionId);
  const endpoint = { endpoint_id: endpointId, connection_id: connectionId, created_at: ago(90) };
  await home.database("webhook_endpoints").insert({ ...FRESH_HEALTH, ...endpoint });
  let seq = 0;
  async function delivery(state: "delivered" | "held" | "pending", at: Date): Promise<string> {
    const id = randomUUID();
    await home.database("webhook_deliveries").insert({
      delivery_id: id,
      endpoint_id: endpointId,
      event_id: randomUUID(),
      event_type: "delegation.denied",
      aggregate_seq: ++seq,
      body: "{}",
      state,
      next_attempt_at: state === "pending" ? at : null,
      settled_at: state === "delivered" ? at : null,
      created_at: at,
    });
    const attempt = { delivery_id: id, attempt: 1, started_at: at, ended_at: at, outcome: "failed" };
    await home.database("webhook_attempts").insert(attempt);
    return id;
  }
  const ended = await delivery("delivered", ago(30, 1));
  const recent = await delivery("delivered", ago(30));
  const heldLong = await delivery("held", ago(30, 1));
  const held = await delivery("held", ago(30));
  const pending = await delivery("pending", ago(60));
  await removeOld(home.database, now);
  const rows = await home.database("webhook_deliveries").orderBy("aggregate_seq");
  expect(rows.map((row) => [row.delivery_id, row.state, row.body])).toEqual([
    [recent, "delivered", "{}"],
    [heldLong, "cancelled", null],
    [held, "held", "{}"],
    [pending, "pending", "{}"],
  ]);
  expect(await home.database("webhook_attempts").where({ delivery_id: ended })).toEqual([]);
});

test("removeOld keeps an old held delivery with a recent attempt", async () => {
  const { connectionId } = await makeConnection(home.database, "https://shop.example.com/");
  const attempt = { attempt: 1, outcome: "failed", started_at: ago(30) };
  const tried = await insertDelivery(home.database, connectionId, { state: "held", at: ago(50) });
  const long = await insertDelivery(home.database, connectionId, { state: "held", at: ago(50) });
  await home.database("webhook_attempts").insert([
    { ...attempt, delivery_id: tried, ended_at: ago(30) },
    { ...attempt, delivery_id: long, ended_at: ago(30, 1) },
  ]);
  await removeOld(home.database, now);
  const rows = home.database("webhook_deliveries").whereIn("delivery_id", [tried, long]);
  expect(await rows.where({ state: "held" }).pluck("delivery_id")).toEqual([tried]);
});

test("removeOld skips deliveries that are resent or released at the same moment", async () => {
  const { connectionId } = await makeConnection(home.database, "https://shop.example.com/");
  const resent = await insertDelivery(home.database, connectionId, { at: ago(31) });
  const released = await insertDelivery(home.database, connectionId, { state: "held", at: ago(31) });
  await home.database("webhook_endpoints").where({ connection_id: connectionId }).update({ state: "paused" });
  const transaction = await home.database.transaction();
  await resumeEndpoint(transaction, connectionId, "replay", now);
  expect(await resendDelivery(transaction, endpointIdOf(connectionId), resent, now)).toBe(undefined);
  const removing = removeOld(home.database, now);
  await sleep(200);
  await transaction.commit();
  await removing;
  const left = await home
    .database("webhook_deliveries")
    .where({ state: "pending", endpoint_id: endpointIdOf(connectionId) })
    .pluck("delivery_id");
  expect(left.toSorted()).toEqual([resent, released].toSorted());
});

test("removeOld deletes finished notices after 30 days, but no waiting notices", async () => {
  const { accountId } = await makeConnection(home.database, null);
  const notice = (state: "waiting" | "sent" | "failed", at: Date) => ({
    event_id: randomUUID(),
    account_id: accountId,
    type: "credits.low",
    payload: "{}",
    state,
    next_attempt_at: state === "waiting" ? at : null,
    settled_at: state === "waiting" ? null : at,
    created_at: at,
  });
  const gone = [notice("sent", ago(30, 1)), notice("failed", ago(30, 1))];
  const kept = [notice("sent", ago(30)), notice("waiting", ago(60))];
  await home.database("notices").insert([...gone, ...kept]);
  await removeOld(home.database, now);
  const left = await home.database("notices").where({ account_id: accountId }).pluck("event_id");
  expect(left.toSorted()).toEqual(kept.map(({ event_id }) => event_id).toSorted());
});

test("removeOld returns true while there is more to delete", async () => {
  const entries = Array.from({ length: 1500 }, () => ({
    consumer: "many",
    event_id: randomUUID(),
    handled_at: ago(20),
  }));
  await home.database.batchInsert("inbox", entries, 500);
  expect([await removeOld(home.database, now), await removeOld(home.database, now)]).toEqual([true, false]);
  expect(await home.database("inbox").where({ consumer: "many" })).toEqual([]);
});

test("removeOld deletes finished recoveries after 30 days, but no open recoveries", async () => {
  const { connectionId } = await makeConnection(home.database, null);
  await insertDelivery(home.database, connectionId, { at: ago(1) });
  const range = { since: ago(90), until: ago(60) };
  const done = (at: Date) =>
    insertRecovery(home.database, connectionId, { ...range, state: "done", finished_at: at });
  await done(ago(30, 1));
  const kept = [await done(ago(30)), await insertRecovery(home.database, connectionId, range)];
  await removeOld(home.database, now);
  const left = await home.database("webhook_recoveries").pluck("recovery_id");
  expect(left.toSorted()).toEqual(kept.toSorted());
});

/** Tables without a test above: how long a row is kept, and the statement that inserts a row of that age. */
const KEPT: [table: string, days: number, insert: string][] = [
  [
    "published_events",
    13,
    `insert into published_events select gen_random_uuid(), 'connection', 'a', 1, 'x', 1, 0, '{}', '{}', :at, :at`,
  ],
  [
    "event_secrets",
    30,
    "insert into event_secrets (event_id, sealed, created_at) values (gen_random_uuid(), '', :at)",
  ],
  [
    "dead_letters",
    30,
    "insert into dead_letters (consumer, event_id, event, reason, created_at) values ('c', gen_random_uuid(), '{}', '', :at)",
  ],
  ["relay_workers", 30, "insert into relay_workers values (gen_random_uuid(), :at)"],
];

test.each(KEPT)("removeOld deletes rows of %s after %i days", async (table, days, insert) => {
  await home.database.raw(insert, { at: ago(days, 1) });
  await home.database.raw(insert, { at: ago(days) });
  await removeOld(home.database, now);
  expect(await home.database(table).delete()).toBe(1);
});

test("removeOld erases a former webhook secret when its grace period ends", async () => {
  const connections = await Promise.all([0, 1].map(() => makeConnection(home.database, null)));
  for (const [place, { connectionId }] of connections.entries()) {
    await home
      .database("connections")
      .where({ connection_id: connectionId })
      .update({ webhook_former_secret_sealed: Buffer.of(1), webhook_former_until: ago(0, -place) });
  }
  await removeOld(home.database, now);
  const kept = await home.database("connections").whereNotNull("webhook_former_secret_sealed");
  expect(kept.map(({ connection_id }) => connection_id)).toEqual([connections[1]?.connectionId]);
});
