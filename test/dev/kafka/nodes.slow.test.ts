import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { kafkaJars } from "../../../src/dev/kafka/jars.ts";
import { startKafka } from "../../support/kafka.ts";

const { jars = "", missing } = await kafkaJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("a Kafka node", { timeout: 120_000 }, () => {
  test("starts with a cluster ID that begins with a dash", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deputize-kafka-"));
    await writeFile(join(folder, "cluster_id"), "-nJ3oQm8RWKT0vG2sVdXyA");
    const kafka = await startKafka({ jars, folder, path: process.env.PATH ?? "" });
    expect(kafka.brokers).toHaveLength(1);
    await kafka.stop();
    await rm(folder, { recursive: true, force: true });
  });
});
