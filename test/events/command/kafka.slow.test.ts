import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds, systemClock } from "../../../src/clock.ts";
import { openPool } from "../../../src/db/database.ts";
import { openCarrier } from "../../../src/events/carrier.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { endpointIdOf } from "../../../src/webhooks/endpoint.ts";
import type { Worker } from "../../../src/worker.ts";
import { insertRecords, itemFor } from "../../proofs/records.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { type KafkaWorld, kafkaWorld, readTopic } from "../kafka/kafka_world.ts";
import { makeConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, deniedEvent } from "../support/events.ts";
import { startTestWorker } from "../support/worker.ts";
import { call, json, letter } from "./command_world.ts";

const START_MS = 10 * 60_000;
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("deputize events over Kafka", { timeout: 120_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  let world: KafkaWorld;
  let worker: Worker;
  const fatal: Error[] = [];
  beforeAll(async () => {
    kafka = await start();
    world = await kafkaWorld(home, kafka.brokers);
    const told = (error: Error) => void fatal.push(error);
    const carrier = await openCarrier(world.settings, told);
    worker = startTestWorker(home.urls, undefined, { carrier, fatal: told });
    await until(
      "the carrier is Kafka",
      async () => (await home.database("event_way").first())?.way === "kafka",
    );
  }, START_MS);
  afterAll(async () => {
    await worker?.stop();
    await world?.dispose();
    await kafka?.stop();
    expect(fatal).toEqual([]);
  });

  const drained = () =>
    until(
      "nothing waits",
      async () =>
        (await home.database("outbox").first()) === undefined &&
        (await home.database("history_queue").first()) === undefined,
      90_000,
    );
  const status = async () =>
    json(await call(home, (commands) => commands.status({ json: true }), { kafka: world.settings }));
  const range = () => ({
    from: addSeconds(systemClock.now(), -3_600).toISOString(),
    to: addSeconds(systemClock.now(), 1).toISOString(),
    json: true,
  });

  test("reports the topics and the progress of each group", async () => {
    const connection = await makeConnection(home.database, "https://hooks.example.test/");
    for (let n = 0; n < 5; n += 1) await append(home.database, deniedEvent(connection, String(n)));
    await drained();
    const { prefix } = world.settings;
    await until("all are read", async () => {
      const { groups } = (await status()).kafka;
      return groups.every(
        (group: { lag: number; partitions: { committed: number | null }[] }) =>
          group.lag === 0 && group.partitions.some(({ committed }) => committed !== null),
      );
    });
    const seen = await status();
    expect(seen).toMatchObject({ way: "kafka", setting: "kafka", published: { kept: 5 } });
    expect(seen.kafka.topics).toEqual([
      { topic: `${prefix}${topics.lifecycle}`, partitions: 4 },
      { topic: `${prefix}${topics.audit}`, partitions: 4 },
      { topic: `${prefix}${topics.deadLetters}`, partitions: 3 },
    ]);
    const [webhooks, notices] = seen.kafka.groups;
    expect([webhooks.group, notices.group]).toEqual([
      `${prefix}deputize.webhooks`,
      `${prefix}deputize.notices`,
    ]);
    const ends = webhooks.partitions.map(({ end }: { end: number }) => end);
    expect(ends.reduce((sum: number, end: number) => sum + end)).toBe(5);
    expect(webhooks.partitions[0]).toEqual({
      ...{ partition: 0, committed: ends[0] === 0 ? null : ends[0], end: ends[0], lag: 0 },
    });
    const lines = await call(home, (commands) => commands.status({}), { kafka: world.settings });
    expect(lines.out).toContain(`Topic          ${prefix}${topics.lifecycle}, 4 partitions\n`);
    expect(lines.out).toMatch(/^ {2}partition \d: committed 5, end 5, lag 0$/m);
    const other = { ...world.settings, prefix: `${randomUUID()}.` };
    const unmade = await call(home, (commands) => commands.status({}), { kafka: other });
    expect(unmade.out).toContain(`${other.prefix}${topics.lifecycle} is missing: run deputize migrate\n`);
  });

  test("publishes the events of a range again with the same ids, and our consumers ignore the repeated events", async () => {
    const before = await readTopic(world.settings, topics.lifecycle, 5);
    const deliveries = () => home.database("webhook_deliveries").orderBy("delivery_id");
    const made = await deliveries();
    expect(made).toHaveLength(5);
    const ended = await call(home, (commands) => commands.replayRange(range()));
    expect(json(ended)).toMatchObject({ found: 5, brought: 5 });
    await drained();
    const after = await readTopic(world.settings, topics.lifecycle, 10);
    expect(after.map(({ headers }) => headers.ce_id).sort()).toEqual(
      [...before, ...before].map(({ headers }) => headers.ce_id).sort(),
    );
    const sequence = after.map(({ headers }) => headers.ce_sequence);
    expect(sequence).toEqual([...sequence.slice(0, 5), ...sequence.slice(0, 5)]);
    await until("they are read", async () => (await status()).kafka.groups[0].lag === 0);
    expect((await deliveries()).map(({ delivery_id }) => delivery_id)).toEqual(
      made.map(({ delivery_id }) => delivery_id),
    );
    expect(await home.database("dead_letters")).toEqual([]);
  });

  test("delivers the event of a dead letter to its consumer through Kafka", async () => {
    const connection = await makeConnection(home.database, "https://hooks.example.test/");
    const payload = { event: "delegation.denied", connection_id: connection.connectionId };
    const event = await letter(home, {
      aggregateId: connection.connectionId,
      payload: JSON.stringify(payload),
    });
    const ids = [event.eventId];
    await call(home, (commands) => commands.replayLetters({ eventIds: ids }));
    const endpoint = { endpoint_id: endpointIdOf(connection.connectionId) };
    await until(
      "it is delivered",
      async () => (await home.database("webhook_deliveries").where(endpoint)).length > 0,
    );
    const deliveries = await home.database("webhook_deliveries").where(endpoint);
    expect(deliveries.map(({ event_id }) => event_id)).toEqual(ids);
    expect(await home.database("dead_letters")).toEqual([]);
  });

  test("publishes the history to the audit topic again with the same ids", async () => {
    const records = await insertRecords(home.database, 1e9);
    const pool = openPool({ url: home.url, name: "test", onError: () => {} });
    const decidedAt = addSeconds(systemClock.now(), -90);
    for (let n = 0; n < 4; n += 1) {
      await decideBatch(pool, [itemFor(records, { decidedAt: addSeconds(decidedAt, n) })]);
    }
    await pool.end();
    await drained();
    const first = await readTopic(world.settings, topics.audit, 4);
    const ended = await call(home, (commands) =>
      commands.replayRange({ ...range(), topic: "audit", account: records.accountId }),
    );
    expect(json(ended)).toMatchObject({ topic: "audit", found: 4, brought: 4 });
    await drained();
    const again = await readTopic(world.settings, topics.audit, 8);
    const idsOf = (records: typeof again) => records.map(({ headers }) => headers.ce_id);
    expect(idsOf(again)).toEqual([...idsOf(first), ...idsOf(first)]);
    expect(again.map(({ value }) => value)).toEqual([...first, ...first].map(({ value }) => value));
  });
});
