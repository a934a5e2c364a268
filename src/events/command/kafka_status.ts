import type { Admin } from "kafkajs";
import { within } from "../../clock.ts";
import type { KafkaSettings } from "../../input/event_settings.ts";
import { createLog } from "../../log.ts";
import { createKafkaClient } from "../kafka/client.ts";
import { explainFailure } from "../kafka/explain_failure.ts";
import { readLag } from "../kafka/lag.ts";
import { groupOf, topics, wantedTopics } from "../kafka/settings.ts";
import type { Reader } from "../published.ts";

/** The topics and groups. A missing topic has 0 partitions. `error` is set if Kafka did not answer. */
export type KafkaStatus = { topics: TopicStatus[]; groups: GroupStatus[] } | { error: string };

/** A topic and its number of partitions. */
export type TopicStatus = { topic: string; partitions: number };

/** The records that a group has not committed. `committed` is `null` if the group never committed. */
export type GroupStatus = {
  group: string;
  topic: string;
  lag: number;
  partitions: { partition: number; committed: number | null; end: number; lag: number }[];
};

const RETRY = { initialRetryTime: 200, retries: 1, maxRetryTime: 500 };
const LONGEST_MS = 8_000;

/** Queries Kafka for at most 8 seconds. On failure, returns a sentence that contains no secret. */
export async function readKafkaStatus(
  settings: KafkaSettings,
  readers: readonly Reader[],
): Promise<KafkaStatus> {
  const admin = createKafkaClient(settings, createLog("silent", "events"), { retry: RETRY }).admin();
  try {
    return await within(LONGEST_MS, ask(admin, settings, readers), { error: "Kafka does not answer" });
  } catch (error) {
    return { error: (await explainFailure(error, settings)).message };
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}

async function ask(admin: Admin, settings: KafkaSettings, readers: readonly Reader[]): Promise<KafkaStatus> {
  await admin.connect();
  const names = Object.values(wantedTopics(settings)).map(({ topic }) => topic);
  const known = new Set(await admin.listTopics());
  const metadata = await admin.fetchTopicMetadata({ topics: names.filter((name) => known.has(name)) });
  const counts = new Map(metadata.topics.map(({ name, partitions }) => [name, partitions.length]));
  const lifecycle = `${settings.prefix}${topics.lifecycle}`;
  const groups = readers.map((reader) => groupOf(settings, reader));
  return {
    topics: names.map((topic) => ({ topic, partitions: counts.get(topic) ?? 0 })),
    groups: known.has(lifecycle)
      ? await Promise.all(groups.map((group) => readGroup(admin, lifecycle, group)))
      : [],
  };
}

async function readGroup(admin: Admin, topic: string, group: string): Promise<GroupStatus> {
  const partitions = (await readLag(admin, topic, group)).map(({ partition, committed, end, lag }) => ({
    partition,
    committed: committed === undefined ? null : Number(committed),
    end: Number(end),
    lag,
  }));
  return { group, topic, lag: partitions.reduce((sum, { lag }) => sum + lag, 0), partitions };
}
