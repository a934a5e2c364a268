import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { freePort } from "../../../src/dev/process/ports.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { endpointIdOf } from "../../../src/webhooks/endpoint.ts";
import { FRESH_HEALTH } from "../../../src/webhooks/retries_and_suspension.ts";
import { makeConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, deniedEvent } from "../support/events.ts";
import { call, json, letter } from "./command_world.ts";

const MAIN = new URL("../../../src/main.ts", import.meta.url).pathname;
const home = useDatabase();
const now = new Date("2026-11-24T12:00:00.000Z");
const clock = { now: () => now };
const ago = (seconds: number) => addSeconds(now, -seconds);

beforeEach(async () => {
  await home.database.raw(
    "truncate outbox, history_queue, published_events, dead_letters, inbox, webhook_endpoints cascade",
  );
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await home.database("event_way").update({ way: "embedded" });
});

const status = async () => json(await call(home, (commands) => commands.status({ json: true }), { clock }));

const nowhere = async (): Promise<KafkaSettings> => ({
  brokers: [`127.0.0.1:${await freePort()}`],
  prefix: "",
  partitions: 12,
  replication: 1,
});

/** Creates an endpoint that was suspended at `at`, with deliveries in these states. */
async function suspended(at: Date, states: readonly ("held" | "delivered")[]): Promise<string> {
  const { connectionId } = await makeConnection(home.database, "https://hooks.example.test/");
  const ids = { endpoint_id: endpointIdOf(connectionId), connection_id: connectionId };
  const since = { state: "suspended", suspended_at: at, suspend_reason: "gone", created_at: at } as const;
  await home.database("webhook_endpoints").insert({ ...FRESH_HEALTH, ...ids, ...since });
  for (const [n, state] of states.entries()) {
    await home.database("webhook_deliveries").insert({
      delivery_id: randomUUID(),
      endpoint_id: ids.endpoint_id,
      event_id: randomUUID(),
      event_type: "delegation.denied",
      aggregate_seq: n,
      body: "{}",
      state,
      settled_at: state === "delivered" ? at : null,
      created_at: at,
    });
  }
  return connectionId;
}

test("the status of an idle service contains zeros", async () => {
  const shards = Array.from({ length: 8 }, (_, shard) => ({
    ...{ shard, owner: null, waiting: 0, oldest_seconds: null },
  }));
  expect(await status()).toEqual({
    way: "embedded",
    setting: "embedded",
    outbox: { waiting: 0, oldest_seconds: null, shards },
    history_queue: { waiting: 0, oldest_seconds: null },
    published: { kept: 0, oldest_at: null },
    dead_letters: { webhooks: 0, notices: 0 },
    deliveries: {
      ...{ pending: 0, sending: 0, held: 0, delivered: 0, rejected: 0, blocked: 0, failed: 0, cancelled: 0 },
    },
    suspended_endpoints: { count: 0, oldest: [] },
    kafka: null,
  });
});

test("the status counts waiting events, published events and dead letters by shard, consumer and state", async () => {
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "one"), ago(90));
  await append(home.database, deniedEvent(connection, "two"), ago(30));
  const workerId = randomUUID();
  await createShardLeases(home.database, workerId, 3600).renew();
  await home
    .database("relay_shards")
    .where({ shard: 0 })
    .update({ held_until: new Date(0) });
  const queued = { account_id: randomUUID(), event_id: randomUUID(), traceparent: null };
  await home.database("history_queue").insert({ ...queued, occurred_at: ago(7) });
  const row = await home.database("outbox").first();
  const { id: _, ...event } = row ?? { id: 0 };
  await home.database("published_events").insert({ ...event, event_id: randomUUID(), published_at: ago(60) });
  await letter(home);
  await letter(home);
  await letter(home, {}, { consumer: "former" });
  const [later, first] = [
    await suspended(ago(10), ["held"]),
    await suspended(ago(20), ["held", "delivered"]),
  ];
  const seen = await status();
  expect(seen.outbox).toMatchObject({ waiting: 2, oldest_seconds: 90 });
  const withRows = seen.outbox.shards.filter((shard: { waiting: number }) => shard.waiting > 0);
  expect(withRows).toEqual([expect.objectContaining({ shard: row?.shard, waiting: 2, oldest_seconds: 90 })]);
  const owners = seen.outbox.shards.map((shard: { owner: string | null }) => shard.owner);
  expect(owners).toEqual([null, ...Array(7).fill(workerId)]);
  expect(seen).toMatchObject({
    history_queue: { waiting: 1, oldest_seconds: 7 },
    published: { kept: 1, oldest_at: ago(60).toISOString() },
    dead_letters: { webhooks: 2, notices: 0, former: 1 },
    deliveries: { held: 2, delivered: 1, pending: 0 },
    suspended_endpoints: {
      count: 2,
      oldest: [
        { connection_id: first, since: ago(20).toISOString(), reason: "gone", held: 1 },
        { connection_id: later, since: ago(10).toISOString(), reason: "gone", held: 1 },
      ],
    },
  });
  const { out } = await call(home, (commands) => commands.status({}), { clock });
  expect(out).toContain("Way            embedded\nOutbox         2 waiting, the oldest for 90 s\n");
  expect(out).toContain(`  shard ${row?.shard}: 2 waiting, the oldest for 90 s, `);
  expect(out.split("\n").filter((text) => text.startsWith("  shard"))).toHaveLength(row?.shard === 0 ? 2 : 3);
  expect(out).toContain("History queue  1 waiting, the oldest for 7 s\n");
  expect(out).toContain("Dead letters   webhooks 2, notices 0, former 1\n");
  expect(out).toContain(`  connection ${first} since ${ago(20).toISOString()} (gone), 1 held\n`);
});

test("the status lists five suspended endpoints and counts all of them", async () => {
  for (let n = 0; n < 6; n += 1) await suspended(ago(n), []);
  const { count, oldest } = (await status()).suspended_endpoints;
  expect([count, oldest.length, oldest[0].since]).toEqual([6, 5, ago(5).toISOString()]);
});

test("the status command reports the state in the database and exits with 3 while Kafka is unavailable", async () => {
  await home.database("event_way").update({ way: "kafka" });
  const kafka = await nowhere();
  const began = performance.now();
  const ended = await call(home, (commands) => commands.status({ json: true }), { clock, kafka });
  expect(performance.now() - began).toBeLessThan(8_000);
  expect([ended.status, ended.err]).toEqual([3, ""]);
  expect(json(ended)).toMatchObject({
    way: "kafka",
    outbox: { waiting: 0 },
    kafka: { error: `No broker of KAFKA_BROKERS answers: ${kafka.brokers[0]}` },
  });
  const lines = await call(home, (commands) => commands.status({}), { clock, kafka });
  expect(lines.status).toBe(3);
  expect(lines.out).toContain("Kafka          could not be queried: No broker of KAFKA_BROKERS answers: ");
}, 60_000);

test("the status command gives up on a Kafka that accepts connections but never answers", async () => {
  const sockets: Socket[] = [];
  const mute = createServer((socket) => void sockets.push(socket)).listen(0, "127.0.0.1");
  await once(mute, "listening");
  const brokers = [`127.0.0.1:${(mute.address() as AddressInfo).port}`];
  const kafka = { ...(await nowhere()), brokers };
  const began = performance.now();
  const ended = await call(home, (commands) => commands.status({ json: true }), { clock, kafka });
  expect(performance.now() - began).toBeLessThan(20_000);
  expect([ended.status, json(ended).kafka]).toEqual([3, { error: "Kafka does not answer" }]);
  for (const socket of sockets) socket.destroy();
  mute.close();
}, 60_000);

test("the status reports an EVENTS setting that differs from the workers' setting", async () => {
  await home.database("event_way").update({ way: "kafka" });
  const { out } = await call(home, (commands) => commands.status({}), { clock });
  expect(out).toContain(
    "Way            kafka, from the latest start of a worker; EVENTS=embedded is set here\n",
  );
});

async function run(environment: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [MAIN, "events", ...args], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [out, err] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
  return { status: await exit, out: out.join(""), err: err.join("") };
}

test("the program accepts the documented options and exits with the commands' status", async () => {
  const own = { DATABASE_URL: home.url };
  const { eventId } = await letter(home);
  const shown = await run(own, "status", "--json");
  expect([shown.status, JSON.parse(shown.out).dead_letters.webhooks]).toEqual([0, 1]);
  const list = ["--consumer", "webhooks", "--type", "delegation.denied", "--limit", "1", "--json"];
  const listed = await run(own, "dead-letters", "list", ...list, "--since", "2026-01-01T00:00:00Z");
  expect(JSON.parse(listed.out).items).toHaveLength(1);
  expect((await run(own, "dead-letters", "show", eventId)).out).toContain(eventId);
  const dry = await run(own, "dead-letters", "replay", eventId, "--dry-run", "--json");
  expect(JSON.parse(dry.out)).toMatchObject({ replayed: 1, dry_run: true });
  const all = await run(own, "dead-letters", "replay", "--all");
  expect([all.status, all.out]).toEqual([0, "Sent again: 1 dead letter\n"]);
  const range = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"];
  const refused = await run(own, "replay", ...range, "--topic", "audit");
  expect([refused.status, refused.err]).toEqual([
    1,
    "deputize events: Events travel with EVENTS=embedded here, so there is no topic to replay them to\n",
  ]);
  const kafka = { EVENTS: "kafka", KAFKA_BROKERS: (await nowhere()).brokers.join() };
  expect((await run({ ...own, ...kafka }, "status")).status).toBe(3);
  expect((await run({}, "status")).status).toBe(78);
}, 180_000);
