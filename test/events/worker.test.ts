import { Registry } from "prom-client";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../src/db/database.ts";
import { createLocalBus } from "../../src/events/consume.ts";
import type { Worker } from "../../src/worker.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, createdEvent, deniedEvent } from "./support/events.ts";
import { isQuiet } from "./support/load.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { eventually } from "./support/time.ts";
import { startTestWorker } from "./support/worker.ts";

const home = useDatabase();
let receiver: Receiver;
let workers: Worker[];

beforeEach(async () => {
  receiver = await startReceiver();
  workers = [];
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  await receiver.close();
});

function start(): Worker {
  const worker = startTestWorker(home.urls);
  workers.push(worker);
  return worker;
}

async function connect() {
  const connection = await makeConnection(home.database, receiver.url);
  receiver.secret = connection.secret;
  return connection;
}
const range = (count: number) => Array.from({ length: count }, (_, n) => `req-${n}`);

test("the worker delivers all events of a connection in order with valid signatures", async () => {
  start();
  const connection = await connect();
  await append(home.database, createdEvent(connection, "dpz_key"));
  for (const id of range(20)) await append(home.database, deniedEvent(connection, id));
  await eventually("21 deliveries", () => receiver.requests.length >= 21);
  expect(receiver.requests.map(({ event }) => event.request_id)).toEqual([undefined, ...range(20)]);
  expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
});

test("several workers deliver each event once and in order", async () => {
  const connections = await Promise.all(Array.from({ length: 12 }, connect));
  start();
  start();
  start();
  await Promise.all(
    connections.map(async (connection, n) => {
      for (const id of range(10)) await append(home.database, deniedEvent(connection, `${n}-${id}`));
    }),
  );
  await eventually("120 deliveries", () => receiver.requests.length >= 120);
  const delivered = new Set(receiver.requests.map(({ deliveryId }) => deliveryId));
  expect([receiver.requests.length, delivered.size]).toEqual([120, 120]);
  for (const [n, connection] of connections.entries()) {
    const own = receiver.requests.filter(({ event }) => event.connection_id === connection.connectionId);
    expect(own.map(({ event }) => event.request_id)).toEqual(range(10).map((id) => `${n}-${id}`));
  }
});

test("a stopping worker finishes requests in progress, records results, and releases its shards immediately", async () => {
  const first = start();
  const connection = await connect();
  let answer = () => {};
  receiver.reply = async () => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return 204;
  };
  await append(home.database, deniedEvent(connection, "req-0"));
  await eventually("the request is under way", () => receiver.open === 1);
  let stopped = false;
  const stopping = first.stop().then(() => {
    stopped = true;
  });
  await append(home.database, deniedEvent(connection, "req-1"));
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(stopped).toBe(false);
  answer();
  await stopping;
  workers = [];
  expect(receiver.requests.map(({ event }) => event.request_id)).toEqual(["req-0"]);
  const { deliveryId } = receiver.requests[0]!;
  const delivery = await home.database("webhook_deliveries").where({ delivery_id: deliveryId }).first();
  expect(delivery?.state).toBe("delivered");
  receiver.reply = () => 204;
  start();
  await eventually("the next worker delivers", () => receiver.requests.length === 2);
});

test("the worker survives repeated loss of its database connections", async () => {
  start();
  const connection = await connect();
  // The run's pooler may have just given one of the terminated server connections to the test's own client.
  const direct = openDatabase({ url: home.url, name: "test", onError: () => {} });
  onTestFinished(() => direct.destroy());
  const cut = `select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and application_name = 'deputize-worker'`;
  for (const id of range(30)) {
    await append(direct, deniedEvent(connection, id));
    if (Number(id.slice(4)) % 3 === 0) await direct.raw(cut);
  }
  const ids = () => new Set(receiver.requests.map(({ event }) => event.request_id));
  await eventually("30 events", () => ids().size === 30);
  await eventually("every result is written", () => isQuiet(direct));
  expect(receiver.requests.length).toBeLessThanOrEqual(30 + 10);
});

test("the worker counts waiting events and attempts without naming a connection", async () => {
  const registry = new Registry();
  const worker = startTestWorker(home.urls, undefined, { metrics: { registry } });
  workers.push(worker);
  const connection = await connect();
  receiver.reply = (_request, _response, nth) => (nth === 1 ? 400 : 204);
  await append(home.database, deniedEvent(connection, "req-0"));
  await append(home.database, deniedEvent(connection, "req-1"));
  const text = () => registry.metrics();
  await eventually("both are counted", async () => (await text()).includes('outcome="delivered"'));
  expect(await text()).toContain('deputize_webhook_attempt_seconds_count{outcome="rejected"} 1');
  expect(await text()).toContain('deputize_webhook_attempt_seconds_count{outcome="delivered"} 1');
  const measured = ["outbox", "consumers", "dead_letters", "history", "deliveries", "endpoints"];
  for (const each of measured) {
    expect(await text()).toContain(`deputize_measurement_up{measurement="${each}"} 1`);
  }
  expect(await text()).toMatch(/^deputize_outbox_events \d+$/m);
  expect(await text()).toMatch(/^deputize_outbox_oldest_seconds \d/m);
  expect(await text()).toContain('deputize_consumer_events_total{consumer="webhooks",outcome="handled"} 2');
  expect(await text()).toMatch(/^deputize_relay_batches_total{result="published"} [12]$/m);
  expect(await text()).not.toContain(connection.connectionId);
});

test("a worker that is rejected because of its EVENTS setting takes no shards from others", async () => {
  const first = start();
  await eventually("it holds all shards", async () => (await home.database("relay_workers")).length === 1);
  const elsewhere = await home.database.transaction();
  await elsewhere.raw("lock table inbox in exclusive mode");
  await append(home.database, deniedEvent(await connect(), "req-0"));
  const fatal: Error[] = [];
  const carrier = { kind: "kafka", open: createLocalBus } as const;
  workers.push(startTestWorker(home.urls, undefined, { carrier, fatal: (error) => fatal.push(error) }));
  await eventually("the other carrier is refused", () => fatal.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(fatal[0]?.message).toContain("1 events still wait");
  expect(await home.database("relay_workers")).toHaveLength(1);
  await elsewhere.rollback();
  await eventually("the event is sent", () => receiver.requests.length === 1);
  expect((await first.health()).ok).toBe(true);
});

test("the worker reports how many events wait, and for how long", async () => {
  const worker = start();
  await eventually("nothing waits", async () => (await worker.health()).events_waiting === 0);
  expect(await worker.health()).toEqual({ ok: true, events_waiting: 0, oldest_event_age: 0 });
  const connection = await connect();
  const elsewhere = await home.database.transaction();
  await elsewhere.raw("lock table inbox in exclusive mode");
  await append(home.database, deniedEvent(connection, "req-0"), new Date(Date.now() - 60_000));
  const { events_waiting, oldest_event_age } = await worker.health();
  await elsewhere.rollback();
  expect(events_waiting).toBe(1);
  expect(oldest_event_age).toBeGreaterThanOrEqual(60);
});
