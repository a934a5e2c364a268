import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { setScene } from "../../http/walk/scene.ts";
import { kafkaForTests } from "../../support/kafka.ts";
import { connectJars, startConnect } from "../../support/kafka_connect.ts";
import { until } from "../../support/process.ts";
import { everyEvent } from "../schemas/every_event.ts";
import { example, siemWorld, withOwn } from "./siem_world.ts";

const { missing: noKafka, start } = await kafkaForTests({ needsOwn: true });
const { jars = "", missing = noKafka } = await connectJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the example for Kafka Connect", { timeout: 300_000 }, () => {
  const world = siemWorld(start);

  async function connect() {
    const { folder, authorityFile, auditTopic, brokers, jaas } = world;
    const secrets = join(folder, "secrets.properties");
    await writeFile(secrets, `jaas=${jaas}\n`);
    const worker = (await example("connect_worker.properties"))
      .replaceAll("/etc/kafka-connect/secrets.properties", secrets)
      .replaceAll("/etc/kafka-connect/ca.pem", authorityFile);
    const connector = await example("audit_to_file.properties");
    return startConnect(jars, folder, {
      worker: (own) => withOwn(worker, { ...own, "bootstrap.servers": brokers }),
      connector: withOwn(connector, { topics: auditTopic, file: join(folder, "audit.jsonl") }),
    });
  }

  async function lines(): Promise<string[]> {
    const text = await readFile(join(world.folder, "audit.jsonl"), "utf8").catch(() => "");
    return text.split("\n").slice(0, -1);
  }

  test("writes a line for each history entry to a file, and skips none after a restart", async () => {
    const { person } = await everyEvent(world.api);
    const running = await connect();
    await until("six lines", async () => (await lines()).length >= 6, 60_000);
    await running.stop();
    const other = await setScene(world.api);
    const again = await connect();
    await until("two more", async () => (await lines()).length >= 8, 60_000);
    await again.stop();
    expect(await lines()).toEqual([...(await world.shownTo(person)), ...(await world.shownTo(other.person))]);
  });
});
