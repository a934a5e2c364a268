import { Kafka, type KafkaConfig, logLevel } from "kafkajs";
import RequestQueue from "kafkajs/src/network/requestQueue/index.js";
import { systemClock } from "../../clock.ts";
import { StartError } from "../../config.ts";
import type { KafkaSettings } from "../../input/event_settings.ts";
import type { Logger } from "../../log.ts";
import { clientConfig } from "./settings.ts";

/** Our level for each level of the library. Errors are only warnings, because the library retries. */
const LEVELS = { [logLevel.ERROR]: "warn", [logLevel.WARN]: "debug" } as const;

/**
 * Creates a client of the library, with workarounds for its bugs. Does not connect yet. `change` replaces the
 * library's connection retries, which take ten seconds.
 */
export function createKafkaClient(
  settings: KafkaSettings,
  log: Logger,
  change: Pick<KafkaConfig, "retry"> = {},
): Kafka {
  calmRequestQueues();
  return new Kafka({
    ...clientConfig(settings),
    ...change,
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => {
      const level = LEVELS[entry.level as keyof typeof LEVELS] ?? "debug";
      const { message, broker, groupId, retryCount, error } = entry.log;
      // Logs only the text of a Kafka error code. Other errors may be objects with arbitrary content.
      const reason = message.startsWith("Response ") && typeof error === "string" ? error : undefined;
      log[level]({ kafka: entry.namespace, broker, groupId, retryCount, reason }, message);
    },
  });
}

/**
 * Stops the library's request queue from checking itself every millisecond forever and from setting timers in
 * the past. Checks are necessary only while a request waits in the queue.
 */
export function calmRequestQueues(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function scheduleCheck() {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const throttledMs = this.throttledUntil - systemClock.now().getTime();
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      throttledMs > 0 ? throttledMs : CHECK_MS,
    );
  };
}

const CHECK_MS = 10;

/** TLS error codes of certificate problems. */
const certificates: Record<string, string> = {
  CERT_HAS_EXPIRED: "the broker's certificate has expired: renew it",
  CERT_NOT_YET_VALID: "the broker's certificate is not valid yet: compare the clocks",
  DEPTH_ZERO_SELF_SIGNED_CERT: "KAFKA_CA is not the authority that issued the broker's certificate",
  SELF_SIGNED_CERT_IN_CHAIN: "KAFKA_CA is not the authority that issued the broker's certificate",
  UNABLE_TO_GET_ISSUER_CERT: "KAFKA_CA is not the authority that issued the broker's certificate",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "KAFKA_CA is not the authority that issued the broker's certificate",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "KAFKA_CA is not the authority that issued the broker's certificate",
  ERR_TLS_CERT_ALTNAME_INVALID: "the broker's certificate is for another host: use its name in KAFKA_BROKERS",
  ERR_SSL_WRONG_VERSION_NUMBER: "the broker does not use TLS at this port: KAFKA_TLS or the port is wrong",
};

/** TLS alerts by which a broker ends a handshake (RFC 8446 §6). */
const alerts: Record<string, string> = {
  "42": "the broker rejects KAFKA_CERT",
  "44": "the broker says that KAFKA_CERT is revoked: renew it",
  "45": "the broker says that KAFKA_CERT has expired: renew it",
  "46": "the broker rejects KAFKA_CERT",
  "48": "the broker does not know the authority of KAFKA_CERT",
  "116": "the broker asks for a certificate: set KAFKA_CERT and KAFKA_KEY",
};
/** Kafka's error codes for a topic that it does not create because a setting or a permission is wrong. */
const topicFaults: Record<string, string> = {
  INVALID_REPLICATION_FACTOR: "KAFKA_REPLICATION exceeds the number of brokers",
  TOPIC_AUTHORIZATION_FAILED: "the user of KAFKA_USERNAME or KAFKA_CERT may not create topics",
  POLICY_VIOLATION: "a policy of the cluster forbids this topic: create it yourself",
};
const NO_TLS = "the broker ends the connection before TLS begins: KAFKA_TLS or the port is wrong";

/**
 * Explains an error of the connection to Kafka. If a setting or a certificate is wrong, the message names the
 * setting and no secret. Returns any other error unchanged.
 */
export function explained(error: unknown, { sasl, brokers }: Pick<KafkaSettings, "sasl" | "brokers">): Error {
  const chain = causesOf(error);
  if (chain.some((each) => each.name === "KafkaJSSASLAuthenticationError")) {
    const user = sasl === undefined ? "nobody" : JSON.stringify(sasl.username);
    return new StartError(
      `Kafka refuses ${user}: check KAFKA_USERNAME, KAFKA_PASSWORD and KAFKA_SASL_MECHANISM`,
      { cause: error },
    );
  }
  const topics = chain.flatMap(({ name, errors = [] }) => (name === "KafkaJSAggregateError" ? errors : []));
  if (topics.length > 0) return notMade(topics, error);
  const codes = chain.map(({ code }) => code);
  const fault = chain.map(tlsFault).find((text) => text !== undefined);
  const listener = advertisedOnly(chain, brokers);
  if (listener !== undefined) return listenerError(listener, fault, error);
  if (fault !== undefined) return new StartError(`Kafka cannot be reached: ${fault}`, { cause: error });
  if (codes.some((code) => code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "ETIMEDOUT")) {
    return noBrokerError({ brokers }, error);
  }
  return error instanceof Error ? error : new Error(String(error));
}

/** Returns the error for settings whose brokers do not answer. */
export function noBrokerError({ brokers }: Pick<KafkaSettings, "brokers">, cause: unknown): Error {
  return new Error(`No broker of KAFKA_BROKERS answers: ${brokers.join(", ")}`, { cause });
}

/**
 * Returns the address of a broker that only Kafka has named, if an error is about its connection. Returns
 * `undefined` if TLS is the reason, because the broker then answers.
 */
export function unreachableListener(
  error: unknown,
  { brokers }: Pick<KafkaSettings, "brokers">,
): string | undefined {
  const chain = causesOf(error);
  return chain.map(tlsFault).every((fault) => fault === undefined)
    ? advertisedOnly(chain, brokers)
    : undefined;
}

function advertisedOnly(chain: readonly Caused[], brokers: readonly string[]): string | undefined {
  const failed = chain.map(({ broker }) => broker).find((each) => each !== undefined);
  return failed !== undefined && brokers.includes(failed) ? undefined : failed;
}

/** Returns the error for a broker that only Kafka has named. So a broker of KAFKA_BROKERS has answered. */
function listenerError(listener: string, fault: string | undefined, cause: unknown): Error {
  const advice = "correct advertised.listeners of the brokers, or let this network reach this address";
  const what = `Kafka advertises the broker ${listener}, which cannot be reached from here`;
  return fault === undefined
    ? new Error(`${what}: ${advice}`, { cause })
    : new StartError(`${what}: ${fault.replace("use its name in KAFKA_BROKERS", advice)}`, { cause });
}

function tlsFault({ code = "", message }: Caused): string | undefined {
  const [, alert = ""] = /SSL alert number (\d+)/.exec(message) ?? [];
  if (message.includes("before secure TLS connection was established")) return NO_TLS;
  return certificates[code] ?? alerts[alert];
}

/** Returns an error with the reason for each topic, because the library's message contains no reasons. */
function notMade(errors: readonly TopicError[], cause: unknown): Error {
  const reasons = errors.map(({ topic, type = "", message }) => `${topic}: ${topicFaults[type] ?? message}`);
  const isFault = errors.some(({ type = "" }) => type in topicFaults);
  return new (isFault ? StartError : Error)(`Kafka could not create topics: ${reasons.join("; ")}`, {
    cause,
  });
}

type TopicError = Error & { topic?: string; type?: string };
/** `broker` is the address of a failed connection. */
type Caused = Error & { code?: string; broker?: string; cause?: unknown; errors?: TopicError[] };

function causesOf(error: unknown): Caused[] {
  const chain: Caused[] = [];
  for (let each = error; each instanceof Error && chain.length < 10; each = each.cause) chain.push(each);
  return chain;
}
