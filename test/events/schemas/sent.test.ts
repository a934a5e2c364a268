import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { v5 as uuidv5 } from "uuid";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import type { Loop } from "../../../src/concurrency/loop.ts";
import { putAside } from "../../../src/events/dead_letters.ts";
import { startDeadLetterLoop } from "../../../src/events/kafka/carry_dead_letters.ts";
import { startHistoryLoop } from "../../../src/events/kafka/history.ts";
import type { KafkaProducer } from "../../../src/events/kafka/producer.ts";
import { toRecord } from "../../../src/events/kafka/records.ts";
import { accountEventKinds, eventKinds } from "../../../src/events/kinds.ts";
import { toEvent } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { historyEventType } from "../../../src/history/history_entry.ts";
import type { Scene } from "../../http/walk/scene.ts";
import { startWholeApi } from "../../http/walk/world.ts";
import type { TestApi } from "../../support/api.ts";
import { until } from "../../support/process.ts";
import { type SchemaChecker, type SeenRecord, schemaChecker } from "../../support/schema_checker.ts";
import { deliveryWorld } from "../../webhooks/delivery_world.ts";
import { append, createdEvent } from "../support/events.ts";
import { everyEvent, TRACE } from "./every_event.ts";

let checker: SchemaChecker;
beforeAll(async () => {
  checker = await schemaChecker();
});

const SILENT = pino({ level: "silent" });
const typesOf = (records: readonly SeenRecord[]) =>
  [...new Set(records.map(({ headers }) => String(headers.ce_type)))].sort();
const faultsOf = (records: readonly SeenRecord[]) => records.flatMap((record) => checker.faultsOf(record));

describe("the published schemas match", () => {
  let api: TestApi;
  let scene: Scene;
  beforeAll(async () => {
    api = await startWholeApi();
    scene = await everyEvent(api);
  });
  afterAll(() => api.stop());

  function keeping() {
    const sent: SeenRecord[] = [];
    const producer: Pick<KafkaProducer, "partitionsOf" | "send"> = {
      partitionsOf: async () => 12,
      async send(records) {
        sent.push(...records.map(({ message }) => message as SeenRecord));
      },
    };
    return { sent, producer: producer as KafkaProducer, database: api.db, log: SILENT, topic: "t" };
  }

  async function during(loop: Loop, what: string, done: () => Promise<boolean>): Promise<void> {
    try {
      await until(what, done, 30_000);
    } finally {
      await loop.stop();
    }
  }

  test("every kind of connection event and account event", async () => {
    const rows = await api.db("outbox").orderBy("id");
    const records = rows.map((row) => toRecord(toEvent(row)) as SeenRecord);
    expect(typesOf(records)).toEqual([...Object.keys(eventKinds), ...Object.keys(accountEventKinds)].sort());
    expect(faultsOf(records)).toEqual([]);
    expect(records.some(({ headers }) => headers.traceparent === TRACE)).toBe(true);
  });

  test("every kind of history entry, which equals the entry in the API", async () => {
    const workerId = randomUUID();
    await createShardLeases(api.db, workerId, 3600).renew();
    const { sent, ...deps } = keeping();
    const loop = startHistoryLoop({ ...deps, workerId });
    await during(loop, "all is sent", async () => (await api.db("history_queue").first()) === undefined);
    expect(typesOf(sent)).toEqual([...historyEventType.options].sort());
    expect(faultsOf(sent)).toEqual([]);
    const { accountId, client } = scene.person;
    for (const { key, value, headers } of sent) {
      expect(key).toBe(accountId);
      expect(headers.ce_id).toBe(uuidv5(JSON.parse(value).event_id, accountId));
      expect(headers).not.toHaveProperty("ce_sequence");
    }
    expect(sent.some(({ headers }) => headers.traceparent === TRACE)).toBe(true);
    const shown = await client.get("/v1/service/audit/personal");
    expect(sent.map(({ value }) => JSON.parse(value)).reverse()).toEqual(shown.body.events);
  });

  test("dead letters of events and of unreadable records", async () => {
    const [row] = await api.db("outbox").orderBy("id").limit(1);
    if (row === undefined) throw new Error("The outbox is empty");
    const event = toEvent(row);
    const consumer = { name: "webhooks" };
    const deps = { database: api.db, clock: systemClock };
    const origin = { topic: "deputize.lifecycle.v1", partition: 0, offset: "7" };
    await putAside(deps, consumer, event, { reason: "TypeError: none" });
    const none = { ...event, eventId: randomUUID(), type: "unreadable", payload: "{", aggregateId: "topic" };
    await putAside(deps, consumer, none, { reason: "The record has no value", origin });
    const { sent, ...loopDeps } = keeping();
    const loop = startDeadLetterLoop({ ...loopDeps, clock: systemClock });
    await during(loop, "both are sent", async () => sent.length === 2);
    expect(faultsOf(sent)).toEqual([]);
    expect(sent[1]?.headers).toMatchObject({ deputize_origin_offset: "7", ce_type: "unreadable" });
  });
});

describe("the published schemas of webhooks match", () => {
  const world = deliveryWorld();

  test("bodies with and without secrets", async () => {
    const connection = await world.connect();
    await append(world.home.database, createdEvent(connection, "dpz_a1b2c3d4_topsecret"));
    await world.deny(connection);
    await world.harness.run();
    const { requests } = world.receiver;
    expect(requests.map(({ event }) => event.event)).toEqual(["connection.created", "delegation.denied"]);
    expect(requests.flatMap(({ body }) => checker.bodyFaultsOf(body))).toEqual([]);
    const [{ api_key, ...rest }] = requests.map(({ event }) => event) as [Record<string, unknown>];
    expect(checker.bodyFaultsOf(JSON.stringify(rest))).toHaveLength(1);
    expect(api_key).toBe("dpz_a1b2c3d4_topsecret");
  });
});
