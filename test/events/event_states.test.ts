import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { eventStates, readOutbox } from "../../src/events/event_states.ts";
import { endpointIdOf } from "../../src/webhooks/endpoint.ts";
import { FRESH_HEALTH } from "../../src/webhooks/retries_and_suspension.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent } from "./support/events.ts";

const home = useDatabase();
const NOW = new Date("2026-03-01T00:00:00.000Z");
const ago = (seconds: number) => addSeconds(NOW, -seconds);
const CONSUMERS = [
  { name: "webhooks", aggregateTypes: ["connection"] },
  { name: "notices", aggregateTypes: ["account"] },
];

beforeEach(async () => {
  for (const table of ["outbox", "inbox", "dead_letters", "history_queue", "published_events"]) {
    await home.database(table).delete();
  }
  await home.database("webhook_deliveries").delete();
  await home.database("webhook_endpoints").delete();
  await home.database("event_way").update({ way: "embedded" });
});

async function readState(name: string): Promise<Record<string, number>> {
  const state = eventStates(home.database, CONSUMERS).find((each) => each.name === name);
  const samples = await state!.read(NOW);
  expect(Object.keys(samples).sort()).toEqual(Object.keys(state!.gauges).sort());
  return Object.fromEntries(
    Object.entries(samples).flatMap(([gauge, all]) =>
      all.map(({ value, labels = {} }) => [[gauge, ...Object.values(labels)].join(" "), value]),
    ),
  );
}

test("the outbox state contains the number of events and the age of the oldest", async () => {
  expect(await readState("outbox")).toEqual({ deputize_outbox_events: 0, deputize_outbox_oldest_seconds: 0 });
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "a"), ago(5));
  await append(home.database, deniedEvent(connection, "b"), ago(90));
  expect(await readState("outbox")).toEqual({
    deputize_outbox_events: 2,
    deputize_outbox_oldest_seconds: 90,
  });
  expect(await readOutbox(home.database, NOW)).toEqual({ events: 2, oldestSeconds: 90 });
});

test("an event with a time in the future has the age 0, because clocks may differ", async () => {
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "a"), addSeconds(NOW, 2));
  expect(await readState("outbox")).toMatchObject({ deputize_outbox_oldest_seconds: 0 });
});

test("the consumers state contains the age of the oldest unhandled event, waiting in the outbox or published", async () => {
  const connection = await makeConnection(home.database, null);
  for (const age of [5, 50]) await append(home.database, deniedEvent(connection, `${age}`), ago(age));
  const [young, old] = await home.database("outbox").orderBy("id");
  const oldest = (seconds: number) => ({
    "deputize_consumer_oldest_seconds webhooks": seconds,
    "deputize_consumer_oldest_seconds notices": 0,
  });
  expect(await readState("consumers")).toEqual(oldest(50));
  await home.database("outbox").where({ id: old!.id }).delete();
  expect(await readState("consumers")).toEqual(oldest(5));
  const { id, ...published } = old!;
  await home.database("published_events").insert({ ...published, published_at: NOW, headers: "{}" as never });
  expect(await readState("consumers")).toEqual(oldest(50));
  await home.database("inbox").insert({ consumer: "notices", event_id: old!.event_id, handled_at: NOW });
  expect(await readState("consumers")).toEqual(oldest(50));
  await home.database("inbox").insert({ consumer: "webhooks", event_id: old!.event_id, handled_at: NOW });
  expect(await readState("consumers")).toEqual(oldest(5));
  await home.database("inbox").insert({ consumer: "webhooks", event_id: young!.event_id, handled_at: NOW });
  expect(await readState("consumers")).toEqual(oldest(0));
});

test("dead letters are counted by consumer, and with Kafka, letters missing on the topic are counted too", async () => {
  const letter = { event: "{}" as never, reason: "r", created_at: NOW };
  const insert = (consumer: string, carriedAt: Date | null) =>
    home
      .database("dead_letters")
      .insert({ ...letter, consumer, event_id: randomUUID(), carried_at: carriedAt });
  for (const carried of [null, null, NOW]) await insert("webhooks", carried);
  await insert("a consumer of another version", NOW);
  const counts = { "deputize_dead_letters webhooks": 3, "deputize_dead_letters notices": 0 };
  expect(await readState("dead_letters")).toEqual(counts);
  await home.database("event_way").update({ way: "kafka" });
  expect(await readState("dead_letters")).toEqual({ ...counts, deputize_dead_letters_uncarried: 2 });
});

test("the history state contains the number of waiting rows, and with Kafka also the age of the oldest", async () => {
  const row = (seconds: number) => ({
    account_id: randomUUID(),
    occurred_at: ago(seconds),
    event_id: randomUUID(),
    traceparent: null,
  });
  await home.database("event_way").update({ way: "kafka" });
  expect(await readState("history")).toEqual({
    deputize_history_queue_rows: 0,
    deputize_history_queue_oldest_seconds: 0,
  });
  await home.database("history_queue").insert([row(5), row(70), row(6)]);
  expect(await readState("history")).toEqual({
    deputize_history_queue_rows: 3,
    deputize_history_queue_oldest_seconds: 70,
  });
  await home.database("event_way").update({ way: "embedded" });
  expect(await readState("history")).toEqual({ deputize_history_queue_rows: 3 });
});

test("unfinished deliveries and inactive endpoints are counted by state", async () => {
  const endpoints = await Promise.all([1, 2, 3].map(() => makeEndpoint()));
  const states = [
    ...["pending", "pending", "pending", "sending", "sending", "held", "delivered", "rejected", "cancelled"],
  ];
  for (const [n, state] of states.entries()) await insertDelivery(endpoints[n % 3]!, state, n);
  await home
    .database("webhook_endpoints")
    .where({ endpoint_id: endpoints[0]! })
    .update({ state: "suspended", suspended_at: NOW });
  await home.database("webhook_endpoints").where({ endpoint_id: endpoints[1]! }).update({ state: "paused" });
  expect(await readState("deliveries")).toEqual({
    "deputize_webhook_deliveries pending": 3,
    "deputize_webhook_deliveries sending": 2,
    "deputize_webhook_deliveries held": 1,
  });
  expect(await readState("endpoints")).toEqual({
    "deputize_webhook_endpoints suspended": 1,
    "deputize_webhook_endpoints paused": 1,
  });
});

test("a query that waits for a lock is cancelled, and leaves no busy connection", async () => {
  const other = await home.database.transaction();
  await other.raw("lock table history_queue in access exclusive mode");
  await expect(readState("history")).rejects.toThrow("timeout");
  const { rows } = await home.database.raw(
    `select from pg_stat_activity where datname = current_database() and query like '%history_queue%'
     and state = 'active' and pid <> pg_backend_pid()`,
  );
  await other.rollback();
  expect(rows).toEqual([]);
});

test("a count stops at 100,000", async () => {
  await home.database.raw(
    `insert into history_queue (account_id, occurred_at, event_id)
     select id, now(), id from generate_series(1, 100001) n, lateral (select lpad(to_hex(n), 32, '0')::uuid as id)`,
  );
  expect(await readState("history")).toMatchObject({ deputize_history_queue_rows: 100_000 });
});

async function makeEndpoint(): Promise<string> {
  const { connectionId } = await makeConnection(home.database, null);
  const endpointId = endpointIdOf(connectionId);
  await home
    .database("webhook_endpoints")
    .insert({ endpoint_id: endpointId, connection_id: connectionId, ...FRESH_HEALTH, created_at: NOW });
  return endpointId;
}

async function insertDelivery(endpointId: string, state: string, seq: number): Promise<void> {
  const isSending = state === "sending";
  await home.database("webhook_deliveries").insert({
    delivery_id: randomUUID(),
    endpoint_id: endpointId,
    event_id: randomUUID(),
    event_type: "delegation.denied",
    aggregate_seq: seq,
    body: "{}",
    state: state as "pending",
    next_attempt_at: state === "pending" ? NOW : null,
    lease_token: isSending ? randomUUID() : null,
    lease_until: isSending ? NOW : null,
    settled_at: ["pending", "sending", "held"].includes(state) ? null : NOW,
    created_at: NOW,
  });
}
