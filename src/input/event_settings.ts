import { z } from "zod";
import { pemFaults } from "./settings/files.ts";
import type { Fault } from "./settings/start_error.ts";
import { line, wholeNumber } from "./settings/types.ts";

/** How to connect to Kafka, and the names of the topics. Secrets and certificates are contents, not files. */
export type KafkaSettings = {
  brokers: string[];
  /** Prefix of all topic and consumer group names. */
  prefix: string;
  /** Number of partitions of newly created topics. Existing topics are not changed. */
  partitions: number;
  replication: number;
  tls?: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined;
  sasl?: { mechanism: SaslMechanism; username: string; password: string } | undefined;
};

/** The method with which a client authenticates to Kafka. */
export type SaslMechanism = "plain" | "scram-sha-256" | "scram-sha-512";

/** Matches a broker's host and port, but no IPv6 address, because the Kafka library cannot parse IPv6. */
const HOST_AND_PORT = /^[A-Za-z0-9.-]+:[0-9]{1,5}$/;
const hasPort = (text: string) => {
  const port = Number(text.slice(text.lastIndexOf(":") + 1));
  return port > 0 && port < 65_536;
};

const brokers = z
  .string()
  .meta({ kind: "brokers" })
  .transform((text) => text.split(",").map((item) => item.trim()))
  .pipe(
    z
      .array(
        z
          .string()
          .regex(HOST_AND_PORT, { message: "must be <host>:<port>", abort: true })
          .refine(hasPort, "must have a port from 1 to 65535"),
      )
      .min(1),
  );
const pem = z.string().meta({ kind: "pem" });
const mechanisms = {
  PLAIN: "plain",
  "SCRAM-SHA-256": "scram-sha-256",
  "SCRAM-SHA-512": "scram-sha-512",
} as const;

/** Settings of event delivery, for every role that sends or reads events. */
export const eventFields = {
  /** With `embedded`, the worker delivers events through the database, without a broker. */
  EVENTS: z.enum(["embedded", "kafka"]).default("embedded"),
  KAFKA_BROKERS: brokers.optional(),
  /** Prefix of all topic and consumer group names. */
  KAFKA_PREFIX: z
    .string()
    .meta({ kind: "prefix" })
    .regex(/^[A-Za-z0-9._-]{0,100}$/, "must be at most 100 letters, digits, dots, dashes and underscores")
    .default(""),
  /** Number of partitions of topics that `deputize migrate` creates. */
  KAFKA_PARTITIONS: wholeNumber(1, 1000).default(12),
  KAFKA_REPLICATION: wholeNumber(1, 9).default(3),
  KAFKA_TLS: z.enum(["true", "false"]).default("false"),
  /** PEM texts: the CA of the brokers' certificates, and the client's own certificate with its key. */
  KAFKA_CA: pem.optional(),
  KAFKA_CERT: pem.optional(),
  KAFKA_KEY: pem.optional(),
  KAFKA_SASL_MECHANISM: z.enum(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]).optional(),
  KAFKA_USERNAME: line.optional(),
  KAFKA_PASSWORD: line.optional(),
};

/** The event settings that can also be read from a file. */
export const EVENT_SECRETS = ["KAFKA_CA", "KAFKA_CERT", "KAFKA_KEY", "KAFKA_PASSWORD"];

type EventConfig = z.infer<z.ZodObject<typeof eventFields>>;

/** Returns faults of settings that do not fit together. Each fault names the setting that is needed. */
export function eventFaults(config: Partial<EventConfig>): Fault[] {
  const { KAFKA_CA, KAFKA_CERT, KAFKA_KEY } = config;
  return [
    ...wayFaults(config),
    ...saslFaults(config),
    ...tlsFaults(config),
    ...pemFaults({
      ca: { name: "KAFKA_CA", text: KAFKA_CA },
      cert: { name: "KAFKA_CERT", text: KAFKA_CERT },
      key: { name: "KAFKA_KEY", text: KAFKA_KEY },
    }),
  ];
}

function wayFaults({ EVENTS, KAFKA_BROKERS }: Partial<EventConfig>): Fault[] {
  if (EVENTS === "kafka" && KAFKA_BROKERS === undefined) {
    return [{ name: "KAFKA_BROKERS", message: "is required with EVENTS=kafka" }];
  }
  if (EVENTS === "embedded" && KAFKA_BROKERS !== undefined) {
    return [{ name: "KAFKA_BROKERS", message: "needs EVENTS=kafka" }];
  }
  return [];
}

const SASL = ["KAFKA_SASL_MECHANISM", "KAFKA_USERNAME", "KAFKA_PASSWORD"] as const;

function saslFaults(config: Partial<EventConfig>): Fault[] {
  const missing = SASL.filter((name) => config[name] === undefined);
  if (missing.length === SASL.length) return [];
  const given = SASL.filter((name) => config[name] !== undefined).join(" and ");
  return missing.map((name) => ({ name, message: `is required with ${given}` }));
}

function tlsFaults(config: Partial<EventConfig>): Fault[] {
  const { KAFKA_TLS, KAFKA_CERT, KAFKA_KEY } = config;
  const files = ["KAFKA_CA", "KAFKA_CERT", "KAFKA_KEY"] as const;
  const faults = files
    .filter((name) => config[name] !== undefined && KAFKA_TLS === "false")
    .map((name): Fault => ({ name, message: "needs KAFKA_TLS=true" }));
  if (KAFKA_CERT !== undefined && KAFKA_KEY === undefined) {
    faults.push({ name: "KAFKA_KEY", message: "is required with KAFKA_CERT" });
  }
  if (KAFKA_KEY !== undefined && KAFKA_CERT === undefined) {
    faults.push({ name: "KAFKA_CERT", message: "is required with KAFKA_KEY" });
  }
  return faults;
}

/** Returns the Kafka connection settings, or `undefined` if events are embedded. */
export function kafkaSettings(config: EventConfig): KafkaSettings | undefined {
  const { EVENTS, KAFKA_BROKERS, KAFKA_SASL_MECHANISM, KAFKA_USERNAME, KAFKA_PASSWORD } = config;
  if (EVENTS !== "kafka" || KAFKA_BROKERS === undefined) return undefined;
  return {
    brokers: KAFKA_BROKERS,
    prefix: config.KAFKA_PREFIX,
    partitions: config.KAFKA_PARTITIONS,
    replication: config.KAFKA_REPLICATION,
    ...(config.KAFKA_TLS === "true" && {
      tls: { ca: config.KAFKA_CA, cert: config.KAFKA_CERT, key: config.KAFKA_KEY },
    }),
    ...(KAFKA_SASL_MECHANISM !== undefined && {
      sasl: {
        mechanism: mechanisms[KAFKA_SASL_MECHANISM],
        username: KAFKA_USERNAME ?? "",
        password: KAFKA_PASSWORD ?? "",
      },
    }),
  };
}
