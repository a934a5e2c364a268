import type { KafkaConfig as ClientConfig, SASLOptions } from "kafkajs";
import type { KafkaSettings } from "../../input/event_settings.ts";

/** Names of the topics, without the prefix. */
export const topics = {
  lifecycle: "deputize.lifecycle.v1",
  audit: "deputize.audit.v1",
  deadLetters: "deputize.dlq.v1",
} as const;

/** Returns the name of a reader's consumer group, with the prefix. */
export function groupOf({ prefix }: Pick<KafkaSettings, "prefix">, { name }: { name: string }): string {
  return `${prefix}deputize.${name}`;
}

/** A day in milliseconds. */
export const DAY_MS = 24 * 60 * 60 * 1000;

/** The properties with which a topic is created. The name includes the prefix. */
export type WantedTopic = { topic: string; partitions: number; retentionMs: number };

/** Dead letters are rare, so their topic needs few partitions. */
const DEAD_LETTER_PARTITIONS = 3;

/** Returns the topics to create, with the prefix. */
export function wantedTopics({
  prefix,
  partitions,
}: Pick<KafkaSettings, "prefix" | "partitions">): Record<keyof typeof topics, WantedTopic> {
  return {
    lifecycle: { topic: `${prefix}${topics.lifecycle}`, partitions, retentionMs: 7 * DAY_MS },
    audit: { topic: `${prefix}${topics.audit}`, partitions, retentionMs: 7 * DAY_MS },
    deadLetters: {
      topic: `${prefix}${topics.deadLetters}`,
      partitions: Math.min(partitions, DEAD_LETTER_PARTITIONS),
      retentionMs: 30 * DAY_MS,
    },
  };
}

const CONNECT_MS = 5_000;
const AUTHENTICATE_MS = 10_000;
const REQUEST_MS = 10_000;

export function clientConfig({ brokers, tls, sasl }: KafkaSettings): ClientConfig {
  return {
    clientId: "deputize",
    brokers,
    connectionTimeout: CONNECT_MS,
    authenticationTimeout: AUTHENTICATE_MS,
    requestTimeout: REQUEST_MS,
    enforceRequestTimeout: true,
    ...(tls && { ssl: withoutUndefined(tls) }),
    ...(sasl && { sasl: sasl as SASLOptions }),
  };
}

function withoutUndefined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
