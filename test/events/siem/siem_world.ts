import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll } from "vitest";
import { topics } from "../../../src/events/kafka/settings.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { startWholeApi, type WholeApi } from "../../http/walk/world.ts";
import type { TestKafka } from "../../support/kafka.ts";
import type { Person } from "../../support/platform_world.ts";
import { type KafkaWorld, kafkaWorld } from "../kafka/kafka_world.ts";

const EXAMPLES = new URL("../../../docs/examples/siem/", import.meta.url);
const START_MS = 20 * 60_000;

/** An API whose history a worker sends to the audit topic of a real Kafka. */
export type SiemWorld = {
  api: WholeApi;
  brokers: string;
  auditTopic: string;
  /** A person's history as they are shown it, oldest first, each entry as JSON. */
  shownTo(person: Person): Promise<string[]>;
};

/** Makes such a world for a test file; `start` starts its Kafka. */
export function siemWorld(start: () => Promise<TestKafka>): SiemWorld {
  const world = {
    async shownTo({ client }) {
      const { body } = await client.get("/v1/service/audit/personal");
      return (body.events as object[]).map((entry) => JSON.stringify(entry)).reverse();
    },
  } as SiemWorld;
  let kafka: TestKafka;
  let bus: KafkaWorld;
  beforeAll(async () => {
    kafka = await start();
    world.api = await startWholeApi();
    bus = await kafkaWorld({ database: world.api.db }, kafka.brokers);
    world.brokers = kafka.brokers.join(",");
    world.auditTopic = `${bus.settings.prefix}${topics.audit}`;
    const workerId = randomUUID();
    await createShardLeases(world.api.db, workerId, 3600).renew();
    bus.join(workerId);
  }, START_MS);
  afterAll(async () => {
    await bus?.dispose();
    await world.api?.stop();
    await kafka?.stop();
  });
  return world;
}

/** A file of the example, as it is documented. */
export function example(name: string): Promise<string> {
  return readFile(new URL(name, EXAMPLES), "utf8");
}

/** Properties with values of this machine. Throws when the text does not set one of them. */
export function withOwn(properties: string, own: Record<string, string>): string {
  return Object.entries(own).reduce((text, [name, value]) => {
    const line = new RegExp(`^${name.replaceAll(".", "\\.")}=.*$`, "m");
    if (!line.test(text)) throw new Error(`The example does not set ${name}`);
    return text.replace(line, () => `${name}=${value}`);
  }, properties);
}
