import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { openPool } from "../../src/db/database.ts";
import { topics } from "../../src/events/kafka/settings.ts";
import { appendEvent, type LifecycleEvent } from "../../src/events/outbox.ts";
import type { KafkaSettings } from "../../src/input/event_settings.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { insertRecords, itemFor } from "../proofs/records.ts";
import { MOMENTS } from "../soak/die_at.ts";
import { kafkaForTests, type TestKafka } from "../support/kafka.ts";
import { type KafkaWorld, kafkaWorld, readTopic } from "./kafka/kafka_world.ts";
import { spawnWorker } from "./support/child.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, createdEvent, deniedEvent } from "./support/events.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { eventually } from "./support/time.ts";

const START_MS = 10 * 60_000;
const TIMING = { leaseSeconds: 1, claimSeconds: 3, reapSeconds: 0.3 };
const OF_KAFKA = /publishes|history|offset|dead letter/;
/** Steps of the relay and of the dispatcher that do not depend on Kafka. */
const BESIDE_KAFKA = /^(relay (reads|takes off)|dispatcher)/;
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const home = useDatabase();
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(() => receiver?.close());
beforeEach(async () => {
  await home.database.raw(
    `truncate outbox, inbox, event_secrets, webhook_endpoints, dead_letters, published_events, event_repairs,
              history_queue, audit_events cascade`,
  );
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  receiver.requests.length = 0;
});

/**
 * Writes events of two connections, one event that no consumer can handle, and a decision. Returns the ids
 * that the receiver must receive.
 */
async function write(): Promise<string[]> {
  const connections = await Promise.all([1, 2].map(() => makeConnection(home.database, receiver.url)));
  const ids: string[] = [];
  for (const connection of connections) {
    receiver.secrets.set(connection.connectionId, connection.secret);
    for (let n = 0; n < 3; n += 1) {
      const id = randomUUID();
      ids.push(id);
      await append(home.database, deniedEvent(connection, id));
    }
  }
  const [first] = connections;
  if (first === undefined) throw new Error("There is no connection");
  const poison: LifecycleEvent = createdEvent(first, "dpz_x");
  const strangeBox = createSecretBox(Buffer.alloc(32, 9));
  await home.database.transaction((tx) => appendEvent(tx, strangeBox, poison, new Date()));
  const account = await insertRecords(home.database, 1e9);
  const pool = openPool({ url: home.url, name: "decide", onError: () => undefined });
  await decideBatch(pool, [itemFor(account, { decidedAt: addSeconds(new Date(), -10) })]);
  await pool.end();
  return ids;
}

async function isQuiet(): Promise<boolean> {
  const { rows } = await home.database.raw(
    `select (select count(*) from outbox) + (select count(*) from history_queue)
          + (select count(*) from webhook_deliveries where settled_at is null)
          + (select count(*) from dead_letters where carried_at is null
             and exists (select from event_way where way = 'kafka'))
          + (select 7 - count(*) from inbox where consumer = 'webhooks') as n`,
  );
  return rows[0].n === 0;
}

async function survives(dieAt: string, kafka?: KafkaSettings): Promise<void> {
  const options = kafka === undefined ? {} : { kafka };
  const ids = await write();
  const dying = await spawnWorker(home.urls, TIMING, { ...options, dieAt });
  await eventually("it has died", () => dying.endedBy() !== null, 25);
  expect(dying.endedBy()).toBe("SIGKILL");
  const next = await spawnWorker(home.urls, TIMING, options);
  await eventually("everything has arrived", isQuiet, 40);
  await next.kill("SIGTERM");
  const received = receiver.requests.map(({ event }) => String(event.request_id));
  expect(new Set(received)).toEqual(new Set(ids));
  expect(received.length).toBeLessThanOrEqual(ids.length + 2);
  for (const id of ids) expect(received.filter((each) => each === id).length).toBeLessThanOrEqual(2);
  expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
  expect(await home.database("dead_letters").where({ consumer: "webhooks" })).toHaveLength(1);
}

describe("a worker with embedded events", { timeout: 120_000 }, () => {
  test.each(MOMENTS.filter((moment) => !OF_KAFKA.test(moment)))(
    'killed at "%s" loses no event, and sends at most two events twice',
    survivesEmbedded,
  );

  async function survivesEmbedded(moment: string): Promise<void> {
    await home.database("event_way").update({ way: "embedded" });
    await survives(moment);
  }
});

describe.skipIf(missing !== undefined)("a worker with events over Kafka", { timeout: 120_000 }, () => {
  let kafka: TestKafka;
  let world: KafkaWorld;
  beforeAll(async () => {
    kafka = await start();
  }, START_MS);
  afterAll(() => kafka?.stop());

  test.each(MOMENTS.filter((moment) => !BESIDE_KAFKA.test(moment)))(
    'killed at "%s" loses no event, and sends at most two events twice',
    async (moment) => {
      world = await kafkaWorld(home, kafka.brokers);
      await home.database("event_way").update({ way: "kafka" });
      await survives(moment, world.settings);
      const history = await home.database("audit_events").pluck("event_id");
      const audit = await readTopic(world.settings, topics.audit, history.length);
      expect(new Set(audit.map(({ value }) => JSON.parse(value).event_id))).toEqual(new Set(history));
      await readTopic(world.settings, topics.deadLetters, 1);
    },
  );
});
