import { Resolver } from "node:dns";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { clusterId, namespaceName } from "./input/cluster_fields.ts";
import { DATABASE_SECRETS, type DatabaseUrls, databaseFields } from "./input/database_url.ts";
import { checkEventSettings, EVENT_SECRETS, eventFields } from "./input/event_settings.ts";
import { writesItsHost } from "./input/url.ts";
import { EVERY_CUSTOM, unregistrableScopes } from "./protocol/documents/scopes.ts";

/** A startup failure that the user can correct. The command line shows its message without a stack trace. */
export class StartError extends Error {}
/** The exit status after a {@link ConfigError} or another {@link StartError}. */
export const WRONG_SETTING = 78;

/** A startup failure because of an invalid setting. The message names the setting, never its value. */
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
    "contains an invalid scope",
  )
  .transform((scopes) => (scopes.length === 0 ? undefined : scopes));
const cidrs = list.pipe(z.array(z.union([z.cidrv4(), z.cidrv6()])));
/** Pattern of the service name in paths and headers, and of its aliases. */
export const WORD = /^[a-z][a-z0-9]{0,31}$/;
const word = z.string().regex(WORD, "must be lower-case letters and digits, a letter first");
const url = z.url().refine(writesItsHost, "must name its host: https://<host>/…");
/** The public URL of the service, without a password. Paths are appended to it. */
const baseUrl = url.refine(
  (text) => /^https?:\/\/[^?#@]+$/i.test(text),
  "must be an http or https URL without query, fragment and user",
);
/** Returns whether Node's `setServers` accepts these addresses. */
function areDnsServers(servers: string[]): boolean {
  try {
    new Resolver().setServers(servers);
    return true;
  } catch {
    return false;
  }
}
const ADDRESS = "[^\\s<>@,]+@[^\\s<>@,]+";
const SENDER = new RegExp(`^(?:[^<>\\p{Cc}]*<${ADDRESS}>|${ADDRESS})$`, "u");
const count = (fallback: number) => z.coerce.number().int().min(0).default(fallback);

/**
 * Settings of every long-running role. The health port is plain HTTP and must not be reachable from outside
 * the installation. With port 0, the system chooses a free port.
 */
const role = z.object({
  LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  HEALTH_HOST: z.string().default("127.0.0.1"),
  HEALTH_PORT: port.default(0),
});

const common = role.extend({
  ...databaseFields,
  SEALING_KEY: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "must be 32 bytes in base64"),
  /**
   * Enables plain HTTP, loopback callbacks and the mailbox page. For development only. Never set it on an
   * installation that others can reach.
   */
  DEVELOPMENT: flag,
  SERVICE_WORD: word.default("service"),
  /** Private networks allowed for callback URLs. In development, this machine's addresses are allowed too. */
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
  SMTP_URL: z
    .url({ protocol: /^smtps?$/, hostname: /./, error: "must be smtp://<host>:<port> or smtps://…" })
    .optional(),
  MAIL_FROM: z
    .string()
    .regex(SENDER, "must be a mail address, or: Deputize <no-reply@example.com>")
    .default("Deputize <no-reply@localhost>"),
  OPERATOR_TOKEN: z.string().min(32).optional(),
  /** YAML file of clusters. Their operators authenticate with service account tokens of these clusters. */
  CLUSTERS_FILE: z.string().min(1).optional(),
  /**
   * Address for operators' calls. Opened only if an operator token or a clusters file is set. No other port
   * accepts these calls. It must not be reachable from outside the installation.
   */
  OPERATOR_HOST: z.string().default("127.0.0.1"),
  OPERATOR_PORT: port.default(8081),
  ALPHA_CREDITS_MICRO_USD: count(10_000_000),
  /** Days for which a decision on an operation is stored. A repeated call gets the stored decision. */
  INVOCATION_DAYS: z.coerce.number().int().min(1).max(36_500).default(30),
  /** Whole months for which the archived history stays in the database. If absent, it stays permanently. */
  HISTORY_RETENTION_MONTHS: z.coerce.number().int().min(1).max(1_200).optional(),
  /** The most that an account may delegate. The vault stores this ceiling with each new root key. */
  ACCOUNT_CEILING: scopes,
  SEND_CODE_PER_IP: count(5),
  SEND_CODE_PER_ADDRESS: count(3),
  SEND_CODE_PER_DAY: count(12),
  VERIFY_CODE_PER_IP: count(30),
  /** Rate limits per connection: presented proofs, created agents, and refused proofs. */
  PRESENT_PER_MINUTE: count(1_200),
  AGENTS_PER_DAY: count(500),
  REFUSED_PROOFS_PER_MINUTE: count(3_000),
  /** Maximum numbers of connections at a time (in total, per network) and of request bodies (per network). */
  CONNECTIONS: count(10_000),
  CONNECTIONS_PER_IP: count(500),
  BODIES_PER_IP: count(100),
  /** Seconds for which an idle HTTP connection is kept. Longer than load balancers keep theirs. */
  KEEP_ALIVE_SECONDS: z.coerce.number().int().min(5).max(7_200).default(620),
  /** Seconds for which the process still accepts new calls after it receives a stop signal. */
  DRAIN_SECONDS: z.coerce.number().int().min(0).max(300).default(0),
  /** Email addresses of the service administrators, separated by commas. */
  SERVICE_ADMINISTRATORS: list,
  /** DNS servers that resolve organizations' domains. If the list is empty, the machine's own are used. */
  DOMAIN_RESOLVERS: list.refine(areDnsServers, "must be IP addresses, with or without a port: 192.0.2.1:53"),
  /** The page to which links in sign-in emails lead. Defaults to the service's own page. */
  SIGN_IN_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Contact address for users who need credit or help. */
  SUPPORT_CONTACT: z
    .union([z.email(), z.url({ protocol: /^https?$/ })], "must be a mail address, or an http or https URL")
    .optional(),
});

const workerFields = common.extend({
  ...eventFields,
  /** Seconds after which other workers may take over a dead worker's outbox shards and deliveries. */
  LEASE_SECONDS: z.coerce.number().int().min(2).default(15),
  CLAIM_SECONDS: z.coerce.number().int().min(20).default(60),
});
const workerSchema = workerFields.superRefine(checkEventSettings);

const operatorSchema = role.extend({
  /** The URL at which applications call the API. */
  API_URL: url,
  /** The URL at which the API answers the operator. */
  OPERATOR_API_URL: url,
  OPERATOR_TOKEN: z.string().min(32),
  /** File that contains the token, if no setting does. The operator rereads the file when it changes. */
  OPERATOR_TOKEN_FILE: z.string().optional(),
  CONSOLE_URL: url,
  /** Endpoint that receives trace spans (OTLP over HTTP). If absent, no spans are recorded. */
  OTEL_EXPORTER_OTLP_ENDPOINT: url.optional(),
});

const duration = z
  .string()
  .regex(/^(?=.)(\d{1,5}h)?(\d{1,5}m)?(\d{1,5}s)?$/, "must be a duration such as 24h or 90m");

const folderOperatorSchema = operatorSchema.extend({
  MANIFESTS_DIR: z.string().min(1),
  STATUS_DIR: z.string().min(1),
  SECRETS_DIR: z.string().min(1),
});

const clusterOperatorSchema = operatorSchema.extend({
  /** Path of the kubeconfig file. If absent, the operator runs as a pod with a service account. */
  KUBECONFIG: z.string().optional(),
  KUBE_CONTEXT: z.string().optional(),
  /** The namespace of the operator's lease and bindings. Defaults to the namespace of the pod or context. */
  OPERATOR_NAMESPACE: namespaceName.optional(),
  /** The namespaces whose objects the operator reconciles. If absent, all namespaces. */
  WATCH_NAMESPACES: list
    .pipe(z.array(namespaceName).min(1))
    .transform((names) => [...new Set(names)])
    .optional(),
  /** How long a finished Delegation is kept. If absent, it is kept permanently. */
  ENDED_TTL: duration.optional(),
  /** How long a delegation without a Kubernetes object is kept before it is revoked. By default, forever. */
  ORPHAN_GRACE: duration.optional(),
  /** The id by which the API knows the cluster. Defaults to the uid of the namespace kube-system. */
  CLUSTER_ID: clusterId.optional(),
});

const databaseSchema = z.object(databaseFields);
const migrateSchema = databaseSchema
  .extend({
    ...eventFields,
    /** Seconds for which `deputize migrate` waits for a database that is not running yet. */
    MIGRATE_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(300),
  })
  .superRefine(checkEventSettings);

/** The settings of each role. The operator has one set for a folder and one for a cluster. */
export const settingSchemas = {
  api: apiSchema,
  worker: workerSchema,
  migrate: migrateSchema,
  operator: [folderOperatorSchema, clusterOperatorSchema],
} as const;

/** Settings that every long-running role has. */
export type RoleConfig = z.infer<typeof role>;
/** Settings of the API role. */
export type ApiConfig = z.infer<typeof apiSchema>;
/** Settings of the worker role: relay and webhook delivery. */
export type WorkerConfig = z.infer<typeof workerSchema>;
/** Settings of an operator that reconciles a folder of manifests. */
export type FolderOperatorConfig = z.infer<typeof folderOperatorSchema>;
/** Settings of an operator in a cluster. */
export type ClusterOperatorConfig = z.infer<typeof clusterOperatorSchema>;
/** Settings of the operator role. */
export type OperatorConfig = FolderOperatorConfig | ClusterOperatorConfig;

type Environment = Record<string, string | undefined>;

/**
 * Replaces `NAME` with the content of the file in `NAME_FILE`, for every setting that can be a secret. The
 * last line break is removed. Throws `ConfigError` if a file cannot be read.
 */
export function withFiles(environment: Environment): Environment {
  const values: Environment = { ...environment };
  for (const name of [...DATABASE_SECRETS, "SEALING_KEY", "SMTP_URL", "OPERATOR_TOKEN", ...EVENT_SECRETS]) {
    const file = environment[`${name}_FILE`];
    if (isEmpty(file) || !isEmpty(values[name])) continue;
    try {
      values[name] = readFileSync(file, "utf8").replace(/\r?\n$/, "");
    } catch {
      throw new ConfigError(`${name}_FILE names a file that cannot be read`);
    }
  }
  return values;
}

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
  const message = "is required to send sign-in codes";
  const canMail = ({ SMTP_URL, DEVELOPMENT }: ApiConfig) => SMTP_URL !== undefined || DEVELOPMENT;
  return read(apiSchema.refine(canMail, { path: ["SMTP_URL"], message }), environment);
}

/** Reads the worker's settings. Throws `ConfigError`. */
export function readWorkerConfig(environment: Environment = process.env): WorkerConfig {
  return read(workerSchema, environment);
}

/** Settings that select an operator for a folder of manifests. */
const FOLDERS = ["MANIFESTS_DIR", "STATUS_DIR", "SECRETS_DIR"];

/** Settings that have no effect for a folder of manifests. Setting them there is an error. */
const CLUSTER_ONLY = ["WATCH_NAMESPACES", "ENDED_TTL", "ORPHAN_GRACE"];

/**
 * Reads the operator's settings: for a folder of manifests if a folder is set, otherwise for a cluster.
 * `options` override the environment. Throws `ConfigError`.
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
      `Settings are missing or wrong:\n  ${wrong}: is for a cluster, but a folder is set`,
    );
  }
  return isFolder ? read(folderOperatorSchema, environment) : read(clusterOperatorSchema, environment);
}

/** Reads the settings of `deputize migrate`. Throws `ConfigError`. */
export function readMigrateConfig(environment: Environment = process.env): z.infer<typeof migrateSchema> {
  return read(migrateSchema, environment);
}

/** Reads the settings of commands that need only the database. Throws `ConfigError`. */
export function readDatabaseConfig(environment: Environment = process.env): DatabaseUrls {
  return read(databaseSchema, environment);
}
