import { Resolver } from "node:dns";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { checkEventSettings, EVENT_SECRETS, eventFields } from "./input/event_settings.ts";
import { writesItsHost } from "./input/url.ts";
import { EVERY_CUSTOM, unregistrableScopes } from "./protocol/documents/scopes.ts";

/**
 * A start that was refused for something a person can correct: the message says what, and no stack is shown.
 */
export class StartError extends Error {}
/** The exit status of such a start. */
export const WRONG_SETTING = 78;

/**
 * A start that was refused because a setting is missing or wrong. The message names the setting, never its
 * value.
 */
export class ConfigError extends StartError {}

const list = z
  .string()
  .default("")
  .transform((text) => text.split(",").map((item) => item.trim()))
  .transform((items) => items.filter((item) => item !== ""));
const port = z.coerce.number().int().min(0).max(65535);
const flag = z
  .enum(["true", "false"])
  .default("false")
  .transform((text) => text === "true");
const scopes = list
  .refine(
    (scopes) => unregistrableScopes(scopes).every((scope) => scope === EVERY_CUSTOM),
    "holds a scope that is not valid",
  )
  .transform((scopes) => (scopes.length === 0 ? undefined : scopes));
const cidrs = list.pipe(z.array(z.union([z.cidrv4(), z.cidrv6()])));
/** The form of the service's word and of its aliases. */
export const WORD = /^[a-z][a-z0-9]{0,31}$/;
const word = z.string().regex(WORD, "must be lower-case letters and digits, a letter first");
const url = z.url().refine(writesItsHost, "must name its host: https://<host>/…");
/**
 * The URL that people and applications are given: nothing may follow its path, and it must not contain a
 * password.
 */
const baseUrl = url.refine(
  (text) => /^https?:\/\/[^?#@]+$/i.test(text),
  "must be an http or https URL without query, fragment and user",
);
/** Whether each is a DNS server as `setServers` takes it. */
function areDnsServers(servers: string[]): boolean {
  try {
    new Resolver().setServers(servers);
    return true;
  } catch {
    return false;
  }
}
const count = (fallback: number) => z.coerce.number().int().min(0).default(fallback);

/**
 * What every role that stays up has. Its health port, plain HTTP, is not for the outside; 0 takes a free one.
 */
const role = z.object({
  LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  HEALTH_HOST: z.string().default("127.0.0.1"),
  HEALTH_PORT: port.default(0),
});

const common = role.extend({
  DATABASE_URL: z.string().min(1),
  SEALING_KEY: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "must be 32 bytes in base64"),
  /**
   * Development: plain http, loopback callbacks and the mailbox page. Never set it where others can reach the
   * service.
   */
  DEVELOPMENT: flag,
  SERVICE_WORD: word.default("service"),
  /** Private networks that callback URLs may lead into; in development also this machine's own addresses. */
  WEBHOOK_ALLOWED_CIDRS: cidrs,
});

const apiSchema = common.extend({
  HOST: z.string().default("127.0.0.1"),
  PORT: port.default(8080),
  BASE_URL: baseUrl,
  SERVICE_WORD_ALIASES: list.pipe(z.array(word)),
  TRUSTED_PROXIES: list,
  VAULT_URL: url,
  VAULT_CA_FILE: z.string().min(1),
  VAULT_CERT_FILE: z.string().min(1),
  VAULT_KEY_FILE: z.string().min(1),
  SMTP_URL: z.string().optional(),
  MAIL_FROM: z.string().default("Deputize <no-reply@localhost>"),
  OPERATOR_TOKEN: z.string().min(32).optional(),
  /** YAML: the clusters whose operators are known by tokens of these clusters. */
  CLUSTERS_FILE: z.string().min(1).optional(),
  /**
   * Where the operators' calls are answered, and nowhere else; not for the outside. There only with a token
   * or a file of clusters.
   */
  OPERATOR_HOST: z.string().default("127.0.0.1"),
  OPERATOR_PORT: port.default(8081),
  ALPHA_CREDITS_MICRO_USD: count(10_000_000),
  /** Days that the decision on an operation is known, and given again to a repeated call. */
  INVOCATION_DAYS: z.coerce.number().int().min(1).max(36_500).default(30),
  /** Whole months that the history is kept once they are archived; without it permanently. */
  HISTORY_RETENTION_MONTHS: z.coerce.number().int().min(1).max(1_200).optional(),
  /**
   * The most that an account may ever delegate, recorded in the vault with its root key when that is made.
   */
  ACCOUNT_CEILING: scopes,
  SEND_CODE_PER_IP: count(5),
  SEND_CODE_PER_ADDRESS: count(3),
  SEND_CODE_PER_DAY: count(12),
  VERIFY_CODE_PER_IP: count(30),
  /** What one connection may have made, and how much refused work it may cause. */
  PRESENT_PER_MINUTE: count(1_200),
  AGENTS_PER_DAY: count(500),
  REFUSED_PROOFS_PER_MINUTE: count(3_000),
  /** Connections that are held at a time, those of one network, and its bodies that are on their way. */
  CONNECTIONS: count(10_000),
  CONNECTIONS_PER_IP: count(500),
  BODIES_PER_IP: count(100),
  /** How long calls are still taken after the signal to end, while balancers learn of it. */
  DRAIN_SECONDS: z.coerce.number().int().min(0).max(300).default(0),
  /** E-mail addresses of the people who look after the service, with commas. */
  SERVICE_ADMINISTRATORS: list,
  /** DNS servers that are asked for organizations' domains; without any those of the machine. */
  DOMAIN_RESOLVERS: list.refine(areDnsServers, "must be IP addresses, perhaps with ports: 192.0.2.1:53"),
  /** The page that the links of sign-in mails lead to; without it those mails have the code alone. */
  SIGN_IN_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Whom people ask for credit and help. */
  SUPPORT_CONTACT: z
    .union([z.email(), z.url({ protocol: /^https?$/ })], "must be a mail address, or an http or https URL")
    .optional(),
});

const workerFields = common.extend({
  ...eventFields,
  /** Seconds that a dead worker's share of the outbox, and the deliveries it was sending, stay its own. */
  LEASE_SECONDS: z.coerce.number().int().min(2).default(15),
  CLAIM_SECONDS: z.coerce.number().int().min(20).default(60),
});
const workerSchema = workerFields.superRefine(checkEventSettings);

const operatorSchema = role.extend({
  /** The URL that applications are given to call. */
  API_URL: url,
  /** Where the API answers the operator. */
  OPERATOR_API_URL: url,
  OPERATOR_TOKEN: z.string().min(32),
  /** The file that the token is in, when it is not in the environment: it is read again from there. */
  OPERATOR_TOKEN_FILE: z.string().optional(),
  CONSOLE_URL: url,
  /** Where spans are sent (OTLP over HTTP); without it none are recorded. */
  OTEL_EXPORTER_OTLP_ENDPOINT: url.optional(),
});

const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const duration = z
  .string()
  .regex(/^(?=.)(\d{1,5}h)?(\d{1,5}m)?(\d{1,5}s)?$/, "must be a duration such as 24h or 90m");

const folderOperatorSchema = operatorSchema.extend({
  MANIFESTS_DIR: z.string().min(1),
  STATUS_DIR: z.string().min(1),
  SECRETS_DIR: z.string().min(1),
});

const clusterOperatorSchema = operatorSchema.extend({
  /** Without one it runs in the cluster, as a pod with a service account. */
  KUBECONFIG: z.string().optional(),
  KUBE_CONTEXT: z.string().optional(),
  /** Where its lease and the bindings of namespaces are; without it the namespace of its pod or context. */
  OPERATOR_NAMESPACE: z.string().regex(NAMESPACE, "must be the name of a namespace").optional(),
  /** The namespaces whose objects are looked at; without them those of all. */
  WATCH_NAMESPACES: list
    .pipe(z.array(z.string().regex(NAMESPACE, "must be names of namespaces, with commas")).min(1))
    .transform((names) => [...new Set(names)])
    .optional(),
  /** How long a delegation that has ended is kept; without it for ever. */
  ENDED_TTL: duration.optional(),
  /** How long a delegation is left that has lost its object; without it such ones are only listed. */
  ORPHAN_GRACE: duration.optional(),
  /** What the API calls the cluster; without it the uid of its namespace kube-system. */
  CLUSTER_ID: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/, "must be at most 64 letters, digits and hyphens")
    .optional(),
});

const databaseSchema = z.object({ DATABASE_URL: z.string().min(1) });
const migrateSchema = databaseSchema
  .extend({
    ...eventFields,
    /** How long `deputize migrate` waits for a database that is not up yet. */
    MIGRATE_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(300),
  })
  .superRefine(checkEventSettings);

/** Settings that every role has. */
export type RoleConfig = z.infer<typeof role>;
/** Settings of the API role. */
export type ApiConfig = z.infer<typeof apiSchema>;
/** Settings of the worker role: relay and webhook delivery. */
export type WorkerConfig = z.infer<typeof workerSchema>;
/** Settings of the operator role over a folder of manifests. */
export type FolderOperatorConfig = z.infer<typeof folderOperatorSchema>;
/** Settings of the operator role in a cluster. */
export type ClusterOperatorConfig = z.infer<typeof clusterOperatorSchema>;
/** Settings of the operator role. */
export type OperatorConfig = FolderOperatorConfig | ClusterOperatorConfig;

type Environment = Record<string, string | undefined>;

/**
 * `NAME_FILE` may be set in place of `NAME` for every setting that can be a secret: the file's content,
 * without its last line break, is the value. An unreadable file stops the start.
 */
function withFiles(environment: Environment): Environment {
  const values: Environment = { ...environment };
  for (const name of ["DATABASE_URL", "SEALING_KEY", "SMTP_URL", "OPERATOR_TOKEN", ...EVENT_SECRETS]) {
    const file = environment[`${name}_FILE`];
    if (isEmpty(file) || !isEmpty(values[name])) continue;
    try {
      values[name] = readFileSync(file, "utf8").trimEnd();
    } catch {
      throw new ConfigError(`${name}_FILE names a file that cannot be read`);
    }
  }
  return values;
}

/** A setting without a text is not set. */
function isEmpty(text: string | undefined): text is "" | undefined {
  return text === undefined || text === "";
}

function read<T>(schema: z.ZodType<T>, environment: Environment): T {
  const present = Object.entries(withFiles(environment)).filter(([, value]) => value !== "");
  const result = schema.safeParse(Object.fromEntries(present));
  if (result.success) return result.data;
  const faults = result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
  throw new ConfigError(`Settings are missing or wrong:\n  ${faults.join("\n  ")}`);
}

/** Reads the API's settings. Outside development an SMTP server must be set. Throws `ConfigError`. */
export function readApiConfig(environment: Environment = process.env): ApiConfig {
  const config = read(apiSchema, environment);
  if (config.SMTP_URL === undefined && !config.DEVELOPMENT) {
    throw new ConfigError("Settings are missing or wrong:\n  SMTP_URL: is required to send sign-in codes");
  }
  return config;
}

/** Reads the worker's settings. Throws `ConfigError`. */
export function readWorkerConfig(environment: Environment = process.env): WorkerConfig {
  return read(workerSchema, environment);
}

/** Settings that an operator over a folder has, and one in a cluster has not. */
const FOLDERS = ["MANIFESTS_DIR", "STATUS_DIR", "SECRETS_DIR"];

/** Settings that would be expected to do something over a folder too, and cannot. */
const CLUSTER_ONLY = ["WATCH_NAMESPACES", "ENDED_TTL", "ORPHAN_GRACE"];

/**
 * Reads the operator's settings: for a folder of manifests when one of its folders is named, else for a
 * cluster. `options` come before them. Throws `ConfigError`.
 */
export function readOperatorConfig(
  settings: Environment = process.env,
  options: Environment = {},
): OperatorConfig {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const environment: Environment = { ...settings, ...Object.fromEntries(given) };
  const isGiven = (name: string) => !isEmpty(environment[name]);
  const isFolder = FOLDERS.some(isGiven);
  const wrong = isFolder ? CLUSTER_ONLY.find(isGiven) : undefined;
  if (wrong !== undefined) {
    throw new ConfigError(
      `Settings are missing or wrong:\n  ${wrong}: is for a cluster, and a folder is named`,
    );
  }
  return isFolder ? read(folderOperatorSchema, environment) : read(clusterOperatorSchema, environment);
}

/** Reads what `deputize migrate` needs. Throws `ConfigError`. */
export function readMigrateConfig(environment: Environment = process.env): z.infer<typeof migrateSchema> {
  return read(migrateSchema, environment);
}

/** Reads what commands on the database need. Throws `ConfigError`. */
export function readDatabaseConfig(environment: Environment = process.env): { DATABASE_URL: string } {
  return read(databaseSchema, environment);
}
