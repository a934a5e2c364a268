import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { z } from "zod";

/** How Kafka is reached, and which topics are used. Secrets and certificates are texts, as read. */
export type KafkaSettings = {
  brokers: string[];
  /** Comes before the name of every topic and consumer group. */
  prefix: string;
  /** For topics that are made; those that exist stay as they are. */
  partitions: number;
  replication: number;
  tls?: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined;
  sasl?: { mechanism: SaslMechanism; username: string; password: string } | undefined;
};

/** How a program shows who it is. */
export type SaslMechanism = "plain" | "scram-sha-256" | "scram-sha-512";

/** The library cannot read an address of IPv6. */
const HOST_AND_PORT = /^[A-Za-z0-9.-]+:[0-9]{1,5}$/;
const hasPort = (text: string) => {
  const port = Number(text.slice(text.lastIndexOf(":") + 1));
  return port > 0 && port < 65_536;
};

const brokers = z
  .string()
  .transform((text) => text.split(",").map((item) => item.trim()))
  .pipe(
    z
      .array(
        z
          .string()
          .regex(HOST_AND_PORT, { message: "must be <host>:<port>", abort: true })
          .refine(hasPort, "has no such port"),
      )
      .min(1),
  );
const mechanisms = {
  PLAIN: "plain",
  "SCRAM-SHA-256": "scram-sha-256",
  "SCRAM-SHA-512": "scram-sha-512",
} as const;

/** Settings of the way that events take, for every role that sends or reads them. */
export const eventFields = {
  /** `embedded`: inside the worker, by way of the database alone. */
  EVENTS: z.enum(["embedded", "kafka"]).default("embedded"),
  KAFKA_BROKERS: brokers.optional(),
  /** Comes before the names of topics and consumer groups. */
  KAFKA_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9._-]{0,100}$/, "must be at most 100 letters, digits, dots, dashes and underscores")
    .default(""),
  /** For topics that `deputize migrate` makes. */
  KAFKA_PARTITIONS: z.coerce.number().int().min(1).max(1000).default(12),
  KAFKA_REPLICATION: z.coerce.number().int().min(1).max(9).default(3),
  KAFKA_TLS: z.enum(["true", "false"]).default("false"),
  /** PEM. The authority of the brokers' certificates, and the client's own certificate with its key. */
  KAFKA_CA: z.string().optional(),
  KAFKA_CERT: z.string().optional(),
  KAFKA_KEY: z.string().optional(),
  KAFKA_SASL_MECHANISM: z.enum(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]).optional(),
  KAFKA_USERNAME: z.string().min(1).optional(),
  KAFKA_PASSWORD: z.string().min(1).optional(),
};

/** Those that may be in a file. */
export const EVENT_SECRETS = ["KAFKA_CA", "KAFKA_CERT", "KAFKA_KEY", "KAFKA_PASSWORD"];

type EventConfig = z.infer<z.ZodObject<typeof eventFields>>;

type Fault = [name: keyof EventConfig, message: string];

/** Finds settings that do not go together, each with what it needs. */
export function checkEventSettings(
  config: EventConfig,
  report: { addIssue(issue: { code: "custom"; path: string[]; message: string }): void },
): void {
  for (const [name, message] of [
    ...wayFaults(config),
    ...saslFaults(config),
    ...tlsFaults(config),
    ...pemFaults(config),
  ]) {
    report.addIssue({ code: "custom", path: [name], message });
  }
}

function wayFaults({ EVENTS, KAFKA_BROKERS }: EventConfig): Fault[] {
  if (EVENTS === "kafka" && KAFKA_BROKERS === undefined) {
    return [["KAFKA_BROKERS", "is required with EVENTS=kafka"]];
  }
  if (EVENTS === "embedded" && KAFKA_BROKERS !== undefined) {
    return [["KAFKA_BROKERS", "is for EVENTS=kafka, which is not set"]];
  }
  return [];
}

const SASL = ["KAFKA_SASL_MECHANISM", "KAFKA_USERNAME", "KAFKA_PASSWORD"] as const;

function saslFaults(config: EventConfig): Fault[] {
  const missing = SASL.filter((name) => config[name] === undefined);
  if (missing.length === SASL.length) return [];
  const given = SASL.filter((name) => config[name] !== undefined).join(" and ");
  return missing.map((name) => [name, `is required with ${given}`]);
}

function tlsFaults(config: EventConfig): Fault[] {
  const { KAFKA_TLS, KAFKA_CERT, KAFKA_KEY } = config;
  const files = ["KAFKA_CA", "KAFKA_CERT", "KAFKA_KEY"] as const;
  const faults = files
    .filter((name) => config[name] !== undefined && KAFKA_TLS === "false")
    .map((name): Fault => [name, "needs KAFKA_TLS=true"]);
  if (KAFKA_CERT !== undefined && KAFKA_KEY === undefined) {
    faults.push(["KAFKA_KEY", "is required with KAFKA_CERT"]);
  }
  if (KAFKA_KEY !== undefined && KAFKA_CERT === undefined) {
    faults.push(["KAFKA_CERT", "is required with KAFKA_KEY"]);
  }
  return faults;
}

/** Node takes any text as an authority, and says of others only what OpenSSL does. */
function pemFaults({ KAFKA_CA, KAFKA_CERT, KAFKA_KEY }: EventConfig): Fault[] {
  const faults: Fault[] = [];
  const read = <T>(
    name: keyof EventConfig,
    text: string | undefined,
    what: string,
    parse: (pem: string) => T,
  ) => {
    try {
      return text === undefined ? undefined : parse(text);
    } catch {
      faults.push([name, `is not ${what} in PEM`]);
      return undefined;
    }
  };
  const toCertificate = (pem: string) => new X509Certificate(pem);
  read("KAFKA_CA", KAFKA_CA, "a certificate", toCertificate);
  const certificate = read("KAFKA_CERT", KAFKA_CERT, "a certificate", toCertificate);
  const key = read<KeyObject>("KAFKA_KEY", KAFKA_KEY, "a private key without a passphrase", createPrivateKey);
  if (certificate !== undefined && key !== undefined && !certificate.checkPrivateKey(key)) {
    faults.push(["KAFKA_KEY", "is not the key of KAFKA_CERT"]);
  }
  return faults;
}

/** How Kafka is reached; `undefined` where events take the embedded way. */
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
