import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { historyEventType } from "../../../src/audit/history_entry.ts";
import { systemClock } from "../../../src/clock.ts";
import { accountEventKinds } from "../../../src/events/account_kinds.ts";
import { putAside } from "../../../src/events/consume.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { eventKinds } from "../../../src/events/kinds.ts";
import { createRelay, toEvent } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { startWholeApi, type WholeApi } from "../../http/walk/world.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { schemaChecker } from "../../support/schema_checker.ts";
import { type KafkaWorld, kafkaWorld, readTopic } from "../kafka/kafka_world.ts";
import { everyEvent } from "./every_event.ts";

const START_MS = 10 * 60_000;
const LIFECYCLE = [...Object.keys(eventKinds), ...Object.keys(accountEventKinds)];
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)(
  "what is read off Kafka fits the schemas",
  { timeout: 120_000 },
  () => {
    let kafka: TestKafka;
    let api: WholeApi;
    let world: KafkaWorld;
    const checker = schemaChecker();
    beforeAll(async () => {
      kafka = await start();
      api = await startWholeApi();
      world = await kafkaWorld({ database: api.db }, kafka.brokers);
      await everyEvent(api);
      const workerId = randomUUID();
      await createShardLeases(api.db, workerId, 3600).renew();
      const [row] = await api.db("outbox").limit(1);
      if (row === undefined) throw new Error("The outbox is empty");
      const aside = { reason: "TypeError: not for us" };
      await putAside({ database: api.db, clock: systemClock }, { name: "webhooks" }, toEvent(row), aside);
      const bus = world.join(workerId);
      const relay = createRelay({ database: api.db, bus, clock: systemClock, workerId });
      while (await relay.step());
    }, START_MS);
    afterAll(async () => {
      await world?.dispose();
      await api?.stop();
      await kafka?.stop();
    });

    test.each([
      [topics.lifecycle, LIFECYCLE, LIFECYCLE.length],
      [topics.audit, historyEventType.options, 6],
      [topics.deadLetters, ["connection.created"], 1],
    ])("%s", async (topic, kinds, count) => {
      const read = await readTopic(world.settings, topic, count);
      expect([...new Set(read.map(({ headers }) => headers.ce_type))].sort()).toEqual([...kinds].sort());
      const { faultsOf } = await checker;
      expect(read.flatMap(faultsOf)).toEqual([]);
    });
  },
);
