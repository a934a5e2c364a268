import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { openCarrier } from "../../../src/events/carrier.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { lagState, readLagReport } from "../../../src/events/kafka/lag.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { createMeasurements } from "../../../src/events/measurements.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { makeConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, deniedEvent } from "../support/events.ts";
import { startTestWorker } from "../support/worker.ts";
import { type KafkaWorld, kafkaWorld, SILENT } from "./kafka_world.ts";

const START_MS = 10 * 60_000;
const { missing, start } = await kafkaForTests({ needsOwn: true });
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("metrics over Kafka", { timeout: 120_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  let world: KafkaWorld;
  beforeAll(async () => {
    kafka = await start();
    world = await kafkaWorld(home, kafka.brokers);
  }, START_MS);
  afterAll(async () => {
    await world?.dispose();
    await kafka?.stop();
  });

  test("a worker exposes its counts of sent and handled events, and the lag of each partition", async () => {
    const registry = new Registry();
    const fatal = (error: Error) => void world.fatal.push(error);
    const carrier = await openCarrier(world.settings, fatal);
    const worker = startTestWorker(home.urls, undefined, { metrics: { registry }, carrier, fatal });
    const connection = await makeConnection(home.database, null);
    for (const id of ["a", "b", "c"]) await append(home.database, deniedEvent(connection, id));
    const text = () => registry.metrics();
    await until(
      "three are handled",
      async () => (await text()).includes('events_total{consumer="webhooks",outcome="handled"} 3'),
      60_000,
    );
    const lifecycle = `${world.settings.prefix}${topics.lifecycle}`;
    expect(await text()).toMatch(
      new RegExp(`^deputize_kafka_produce_seconds_count{topic="${lifecycle}",result="written"} [1-3]$`, "m"),
    );
    expect(await text()).toMatch(/^deputize_kafka_reader_silent_seconds{consumer="notices"} \d/m);
    const group = `${world.settings.prefix}deputize.webhooks`;
    const lag = new RegExp(
      `^deputize_kafka_consumer_lag{topic="${lifecycle}",group="${group}",partition="[0-3]"} 0$`,
      "gm",
    );
    await until("the lag is measured", async () => (await text()).match(lag)?.length === 4, 60_000);
    expect(await text()).toContain('deputize_measurement_up{measurement="kafka_lag"} 1');
    expect(await text()).not.toContain(connection.connectionId);
    const report = await readLagReport(home.database);
    expect(report?.content.deputize_kafka_consumer_lag).toHaveLength(8);
    await worker.stop();
    expect(await text()).not.toMatch(/^deputize_kafka_reader_silent_seconds{/m);
    expect(world.fatal).toEqual([]);
  });

  test("the lag counts unread records, and has no value while Kafka is unavailable", async () => {
    const registry = new Registry();
    const log = pino({ level: "silent" });
    const measurements = createMeasurements({ registry, clock: systemClock, log, readSeconds: 5 });
    const topic = `${world.settings.prefix}${topics.lifecycle}`;
    const state = lagState(createKafkaClient(world.settings, SILENT), topic, ["nobody"]);
    measurements.add(state);
    const shown = async () => {
      await measurements.read();
      const lines = (await registry.metrics()).split("\n");
      const lags = lines.filter((line) => line.startsWith("deputize_kafka_consumer_lag{"));
      const sum = lags.reduce((all, line) => all + Number(line.split(" ").at(-1)), 0);
      return {
        up: lines.find((line) => line.startsWith("deputize_measurement_up"))?.at(-1),
        lags: lags.length,
        sum,
      };
    };
    expect(await shown()).toEqual({ up: "1", lags: 4, sum: 3 });
    await kafka.nodes[0]?.kill();
    expect(await shown()).toEqual({ up: "0", lags: 0, sum: 0 });
    await kafka.nodes[0]?.start();
    await until("Kafka answers again", async () => (await shown()).up === "1", 60_000);
    expect(await shown()).toEqual({ up: "1", lags: 4, sum: 3 });
    await state.close();
  });
});
