import type { KafkaConfig as ClientConfig, SASLOptions } from "kafkajs";
import type { KafkaSettings } from "../../input/event_settings.ts";

/** Names of the topics, without the prefix. */
export const topics = {
  lifecycle: "deputize.lifecycle.v1",
  audit: "deputize.audit.v1",
  deadLetters: "deputize.dlq.v1",
} as const;

/** Milliseconds until a connection, a sign-in or a call counts as failed. */
const CONNECT_MS = 5_000;
const AUTHENTICATE_MS = 10_000;
const REQUEST_MS = 10_000;

/** The settings in the library's words. */
export function clientConfig({ brokers, tls, sasl }: KafkaSettings): ClientConfig {
  return {
    clientId: "deputize",
    brokers,
    connectionTimeout: CONNECT_MS,
    authenticationTimeout: AUTHENTICATE_MS,
    requestTimeout: REQUEST_MS,
    enforceRequestTimeout: true,
    ...(tls && { ssl: given(tls) }),
    ...(sasl && { sasl: sasl as SASLOptions }),
  };
}

function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
