import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kafkaJars } from "../../src/dev/kafka/jars.ts";
import { type KafkaNodes, type KafkaOptions, startKafka } from "../../src/dev/kafka/nodes.ts";

/** A Kafka for tests: one of their own, or the one that KAFKA_BROKERS_TEST names. */
export type TestKafka = Pick<KafkaNodes, "brokers" | "stop"> & { nodes: KafkaNodes["nodes"] };

/** Whether there can be one, or why not. `needsOwn`: its nodes are stopped, or secured in a special way. */
export async function kafkaForTests({ needsOwn = false } = {}): Promise<{
  missing?: string;
  start(options?: Omit<KafkaOptions, "jars" | "folder" | "path">): Promise<TestKafka>;
}> {
  const { KAFKA_BROKERS_TEST: given = "" } = process.env;
  if (given !== "" && needsOwn) {
    return { missing: "brokers of one's own, which KAFKA_BROKERS_TEST rules out", start };
  }
  if (given !== "") {
    return { start: async () => ({ brokers: given.split(","), nodes: [], stop: async () => undefined }) };
  }
  const { missing } = await kafkaJars();
  return { ...(missing !== undefined && { missing }), start };
}

async function start(options: Omit<KafkaOptions, "jars" | "folder" | "path"> = {}): Promise<TestKafka> {
  const { jars = "" } = await kafkaJars();
  const folder = await mkdtemp(join(tmpdir(), "deputize-kafka-"));
  const kafka = await startKafka({ ...options, jars, folder, path: process.env.PATH ?? "" });
  return {
    ...kafka,
    async stop() {
      await kafka.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
