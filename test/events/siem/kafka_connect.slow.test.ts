import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { topics } from "../../../src/events/kafka/settings.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { setScene } from "../../http/walk/scene.ts";
import { startWholeApi, type WholeApi } from "../../http/walk/world.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { connectJars, startConnect, withOwn } from "../../support/kafka_connect.ts";
import { until } from "../../support/process.ts";
import { type KafkaWorld, kafkaWorld } from "../kafka/kafka_world.ts";
import { everyEvent } from "../schemas/every_event.ts";

const EXAMPLES = new URL("../../../docs/examples/siem/", import.meta.url);
const example = (name: string) => readFile(new URL(name, EXAMPLES), "utf8");
const START_MS = 20 * 60_000;
const { missing: noKafka, start } = await kafkaForTests();
const { jars = "", missing = noKafka } = await connectJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the example for Kafka Connect", { timeout: 300_000 }, () => {
  let kafka: TestKafka;
  let api: WholeApi;
  let world: KafkaWorld;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-siem-"));
    kafka = await start();
    api = await startWholeApi();
    world = await kafkaWorld({ database: api.db }, kafka.brokers);
    const workerId = randomUUID();
    await createShardLeases(api.db, workerId, 3600).renew();
    world.join(workerId);
  }, START_MS);
  afterAll(async () => {
    await world?.dispose();
    await api?.stop();
    await kafka?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  async function connect() {
    const own = { topics: `${world.settings.prefix}${topics.audit}`, file: join(folder, "audit.jsonl") };
    return startConnect(jars, folder, {
      worker: await example("connect_worker.properties"),
      connector: withOwn(await example("audit_to_file.properties"), own),
      change: { "bootstrap.servers": kafka.brokers.join(",") },
    });
  }

  const lines = async () =>
    (await readFile(join(folder, "audit.jsonl"), "utf8").catch(() => "")).split("\n").slice(0, -1);

  test("makes a file with a line for each entry, as the history shows it; a restart leaves out none", async () => {
    const { person } = await everyEvent(api);
    const running = await connect();
    await until("six lines", async () => (await lines()).length >= 6, 60_000);
    await running.stop();
    const other = await setScene(api);
    const again = await connect();
    await until("two more", async () => (await lines()).length >= 8, 60_000);
    await again.stop();
    const shown = async ({ client }: typeof person) => {
      const { body } = await client.get("/v1/service/audit/personal");
      return (body.events as object[]).map((entry) => JSON.stringify(entry)).reverse();
    };
    expect(await lines()).toEqual([...(await shown(person)), ...(await shown(other.person))]);
  });
});
