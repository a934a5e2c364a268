import { setTimeout as sleep } from "node:timers/promises";
import kafkajs, { type Kafka } from "kafkajs";
import type { KafkaSettings } from "../../input/event_settings.ts";
import type { Logger } from "../../log.ts";
import { createKafkaClient } from "./client.ts";
import { explainFailure } from "./explain_failure.ts";
import { DAY_MS, type WantedTopic, wantedTopics } from "./settings.ts";

const RETRY = { initialRetryTime: 200, retries: 3, maxRetryTime: 1_000 };
/** A broker answers with these errors until it knows a new topic and its leaders. */
const NOT_YET = ["UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"];
const KNOWN_WITHIN_MS = 10_000;
const PAUSE_MS = 100;

type Admin = ReturnType<Kafka["admin"]>;

/** The names of created topics, and sentences about existing topics that differ from the settings. */
export type TopicsReport = { made: string[]; differing: string[] };

/**
 * Creates the missing topics. Does not change existing ones: more partitions would break the order of
 * records. Throws `StartError` if a setting or a certificate is wrong.
 */
export async function ensureTopics(client: Kafka, settings: KafkaSettings): Promise<TopicsReport> {
  const admin = client.admin({ retry: RETRY });
  try {
    await admin.connect();
    const wanted = Object.values(wantedTopics(settings));
    const known = new Set(await admin.listTopics());
    const missing = wanted.filter(({ topic }) => !known.has(topic));
    if (missing.length > 0) {
      await admin.createTopics({
        waitForLeaders: false,
        topics: missing.map(({ topic, partitions, retentionMs }) => ({
          topic,
          numPartitions: partitions,
          replicationFactor: settings.replication,
          configEntries: [
            { name: "cleanup.policy", value: "delete" },
            { name: "retention.ms", value: String(retentionMs) },
            { name: "min.insync.replicas", value: String(Math.max(1, settings.replication - 1)) },
          ],
        })),
      });
      await untilKnown(
        admin,
        missing.map(({ topic }) => topic),
      );
    }
    const differing = await Promise.all(
      wanted.filter(({ topic }) => known.has(topic)).map((each) => differencesOf(admin, each)),
    );
    return { made: missing.map(({ topic }) => topic), differing: differing.flat() };
  } catch (error) {
    throw await explainFailure(error, settings);
  } finally {
    await admin.disconnect();
  }
}

/** Waits for the brokers. The library's own wait fails if a broker does not know a topic yet. */
async function untilKnown(admin: Admin, topics: string[]): Promise<void> {
  const giveUp = performance.now() + KNOWN_WITHIN_MS;
  for (;;) {
    try {
      await admin.fetchTopicMetadata({ topics });
      return;
    } catch (error) {
      const { type, cause } = Object(error) as { type?: string; cause?: unknown };
      const reason = type ?? (Object(cause) as { type?: string }).type ?? "";
      if (!NOT_YET.includes(reason) || performance.now() > giveUp) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

/** Creates the missing topics, and logs what it created and which existing topics differ. */
export async function makeTopics(settings: KafkaSettings, log: Logger): Promise<void> {
  const { made, differing } = await ensureTopics(createKafkaClient(settings, log), settings);
  if (made.length > 0) log.info({ topics: made }, "topics created");
  for (const difference of differing) log.warn(`${difference}; it is left as it is`);
}

async function differencesOf(
  admin: Admin,
  { topic, partitions, retentionMs }: WantedTopic,
): Promise<string[]> {
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: ["retention.ms"] }],
  });
  const hasPartitions = metadata.topics[0]?.partitions.length ?? 0;
  const hasRetention = Number(resources[0]?.configEntries[0]?.configValue);
  return [
    hasPartitions === partitions ? undefined : `${topic} has ${hasPartitions} partitions, not ${partitions}`,
    hasRetention === retentionMs
      ? undefined
      : `${topic} keeps records for ${days(hasRetention)}, not ${days(retentionMs)}`,
  ].filter((text) => text !== undefined);
}

function days(ms: number): string {
  return ms === -1 ? "ever" : `${ms / DAY_MS} days`;
}
