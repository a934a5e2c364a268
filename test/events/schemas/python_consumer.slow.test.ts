import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { topics } from "../../../src/events/kafka/settings.ts";
import { kafkaForTests } from "../../support/kafka.ts";
import { pythonPackages } from "../../support/outside_tools.ts";
import { until } from "../../support/process.ts";
import { ENTRIES, HISTORY, LIFECYCLE, publishedWorld } from "./published_world.ts";

const CONSUMER = fileURLToPath(new URL("../../../docs/examples/consumer.py", import.meta.url));
const SCHEMAS = fileURLToPath(new URL("../../../docs/events", import.meta.url));
const { missing: noKafka, start } = await kafkaForTests();
const python = await pythonPackages("kafka-python-1", ["confluent-kafka==2.16.1", "jsonschema==4.26.0"]);
const missing = noKafka ?? python.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

type Line = { kind: string; id: string; of: string; event: object };

describe.skipIf(missing !== undefined)("the example consumer in Python", { timeout: 120_000 }, () => {
  const world = publishedWorld(start);

  test("accepts each event once, using only the schemas", async () => {
    const { brokers, prefix } = world.settings;
    const all = world.events + ENTRIES;
    const read = [topics.lifecycle, topics.audit].map((topic) => `${prefix}${topic}`);
    const args = [CONSUMER, SCHEMAS, brokers.join(","), `${prefix}python`, ...read];
    const env = { ...process.env, PYTHONPATH: python.folder };
    const consumer = spawn("python3", args, { env, stdio: ["ignore", "pipe", "pipe"] });
    const ended = once(consumer, "exit");
    let [printed, complained] = ["", ""];
    consumer.stdout.on("data", (chunk) => {
      printed += chunk;
    });
    consumer.stderr.on("data", (chunk) => {
      complained += chunk;
    });
    const lines = () =>
      printed
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line);
    await until(
      "all are read, or it has ended",
      () => lines().length >= all || consumer.exitCode !== null,
      60_000,
    );
    await sleep(2_000);
    expect([consumer.exitCode, complained]).toEqual([null, ""]);
    consumer.kill();
    await ended;
    expect(lines()).toHaveLength(all);
    expect(new Set(lines().map(({ id }) => id)).size).toBe(all);
    expect(new Set(lines().map(({ kind }) => kind))).toEqual(new Set([...LIFECYCLE, ...HISTORY]));
  });
});
