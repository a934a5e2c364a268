import { describe, expect, test } from "vitest";
import { topics } from "../../../src/events/kafka/settings.ts";
import { kafkaForTests } from "../../support/kafka.ts";
import { schemaChecker } from "../../support/schema_checker.ts";
import { readTopic } from "../kafka/kafka_world.ts";
import { ENTRIES, HISTORY, LIFECYCLE, publishedWorld } from "./published_world.ts";

const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)(
  "the published schemas match every record of the topic",
  { timeout: 120_000 },
  () => {
    const world = publishedWorld(start);
    const checker = schemaChecker();

    test.each<[string, readonly string[], () => number]>([
      [topics.lifecycle, LIFECYCLE, () => 2 * world.events],
      [topics.audit, HISTORY, () => ENTRIES],
      [topics.deadLetters, ["connection.created"], () => 1],
    ])("%s", async (topic, kinds, count) => {
      const read = await readTopic(world.settings, topic, count());
      expect([...new Set(read.map(({ headers }) => headers.ce_type))].sort()).toEqual([...kinds].sort());
      const { faultsOf } = await checker;
      expect(read.flatMap(faultsOf)).toEqual([]);
    });
  },
);
