import { z } from "zod";
import { clusterId, namespaceName } from "./input/cluster_fields.ts";
import { API_CONNECTIONS, type DatabaseUrls, databaseFields } from "./input/database_url.ts";
import { eventFaults, eventFields } from "./input/event_settings.ts";
import { UsageError } from "./input/exit_status.ts";
import { pemFileFaults, readClusters, readText, UNREADABLE } from "./input/settings/files.ts";
import { type Environment, readSettings } from "./input/settings/read.ts";
import type { Fault } from "./input/settings/start_error.ts";
import * as type from "./input/settings/types.ts";

export { ConfigError, StartError, WRONG_SETTING } from "./input/settings/start_error.ts";
export { WORD } from "./input/settings/types.ts";

/**
 * Settings of every long-running role. The health port is plain HTTP and must not be reachable from outside
 * the installation. With port 0, the system chooses a free port.
 */
const role = z.object({
  LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  HEALTH_HOST: type.host.default("127.0.0.1"),
  HEALTH_PORT: type.port.default(0),
});

const common = role.extend({
  ...databaseFields,
  SEALING_KEY: type.sealingKey,
  /**
   * Enables plain HTTP, loopback callbacks and the mailbox page. For development only. Never set it on an
   * installation that others can reach.
   */
  DEVELOPMENT: type.flag,
  SERVICE_WORD: type.word.default("service"),
  /** Private networks allowed for callback URLs. In development, this machine's addresses are allowed too. */
  WEBHOOK_ALLOWED_CIDRS: type.networks,
});

const apiSchema = common.extend({
  HOST: type.host.default("127.0.0.1"),
  PORT: type.port.default(8080),
  BASE_URL: type.baseUrl,
  SERVICE_WORD_ALIASES: type.words,
  TRUSTED_PROXIES: type.proxies,
  VAULT_URL: type.tlsUrl,
  VAULT_CA_FILE: type.path,
  VAULT_CERT_FILE: type.path,
  VAULT_KEY_FILE: type.path,
  SMTP_URL: type.smtpUrl.optional(),
  MAIL_FROM: type.sender.default("Deputize <no-reply@localhost>"),
  OPERATOR_TOKEN: type.token.optional(),
  /** YAML file of clusters. Their operators authenticate with service account tokens of these clusters. */
  CLUSTERS_FILE: type.path.optional(),
  /** The id of the API's own cluster that its operator recorded. `CLUSTERS_FILE` must not give another. */
  RECORDED_CLUSTER_ID: clusterId.meta({ kind: "cluster id" }).optional(),
  /**
   * Address for operators' calls. Opened only if an operator token or a clusters file is set. No other port
   * accepts these calls. It must not be reachable from outside the installation.
   */
  OPERATOR_HOST: type.host.default("127.0.0.1"),
  OPERATOR_PORT: type.port.default(8081),
  ALPHA_CREDITS_MICRO_USD: type.wholeNumber(0, 1_000_000_000_000_000).default(10_000_000),
  /** Days for which a decision on an operation is stored. A repeated call gets the stored decision. */
  INVOCATION_DAYS: type.wholeNumber(1, 36_500).default(30),
  /** Days for which a delegation request that nobody decided is stored after it expired. */
  UNDECIDED_REQUEST_DAYS: type.wholeNumber(1, 36_500).default(30),
  /** Whole months for which the archived history stays in the database. If absent, it stays permanently. */
  HISTORY_RETENTION_MONTHS: type.wholeNumber(1, 1_200).optional(),
  /** The most that an account may delegate. The vault stores this ceiling with each new root key. */
  ACCOUNT_CEILING: type.scopes,
  /** Days after which a person must sign in again, however often they refresh their session. */
  SIGN_IN_DAYS: type.wholeNumber(1, 365).default(30),
  SEND_CODE_PER_IP: type.wholeNumber(0).default(5),
  SEND_CODE_PER_ADDRESS: type.wholeNumber(0).default(3),
  SEND_CODE_PER_DAY: type.wholeNumber(0).default(12),
  VERIFY_CODE_PER_IP: type.wholeNumber(0).default(30),
  /** Rate limits per connection: presented proofs, created agents, and refused proofs. */
  PRESENT_PER_MINUTE: type.wholeNumber(0).default(1_200),
  AGENTS_PER_DAY: type.wholeNumber(0).default(500),
  /** Changing calls of one sign-in or connection. Ending calls and refreshes are counted separately. */
  CHANGES_PER_MINUTE: type.wholeNumber(0).default(120),
  /** Delegation requests that one person files for one account. */
  REQUESTS_PER_DAY: type.wholeNumber(0).default(500),
  REFUSED_PROOFS_PER_MINUTE: type.wholeNumber(0).default(3_000),
  /** Maximum numbers of connections at a time (in total, per network) and of request bodies (per network). */
  CONNECTIONS: type.wholeNumber(0).default(10_000),
  CONNECTIONS_PER_IP: type.wholeNumber(0).default(500),
  BODIES_PER_IP: type.wholeNumber(0).default(100),
  /** The most connections to the database that the process holds. */
  DATABASE_POOL_SIZE: type.wholeNumber(12, 500).default(API_CONNECTIONS),
  /** Seconds for which an idle HTTP connection is kept. Longer than load balancers keep theirs. */
  KEEP_ALIVE_SECONDS: type.wholeNumber(5, 7_200).default(620),
  /** Seconds for which the process still accepts new calls after it receives a stop signal. */
  DRAIN_SECONDS: type.wholeNumber(0, 300).default(0),
  /** Email addresses of the service administrators, separated by commas. */
  SERVICE_ADMINISTRATORS: type.mailAddresses,
  /** DNS servers that resolve organizations' domains. If the list is empty, the machine's own are used. */
  DOMAIN_RESOLVERS: type.dnsServers,
  /** The page to which links in sign-in emails lead. Defaults to the service's own page. */
  SIGN_IN_URL: type.url.optional(),
  /** Contact address for users who need credit or help. */
  SUPPORT_CONTACT: type.contact.optional(),
});

const workerSchema = common.extend({
  ...eventFields,
  /** The most connections to the database that the process holds. */
  DATABASE_POOL_SIZE: type.wholeNumber(4, 500).default(17),
  /** Seconds after which other workers may take over a dead worker's outbox shards and deliveries. */
  LEASE_SECONDS: type.wholeNumber(2, 900).default(15),
  CLAIM_SECONDS: type.wholeNumber(20, 3_600).default(60),
});

const operatorSchema = role.extend({
  /** The URL at which applications call the API. */
  API_URL: type.url,
  /** The URL at which the API answers the operator. */
  OPERATOR_API_URL: type.url,
  OPERATOR_TOKEN: type.token,
  /** File that contains the token, if no setting does. The operator rereads the file when it changes. */
  OPERATOR_TOKEN_FILE: type.path.optional(),
  CONSOLE_URL: type.url,
  /** Endpoint that receives trace spans (OTLP over HTTP). If absent, no spans are recorded. */
  OTEL_EXPORTER_OTLP_ENDPOINT: type.url.optional(),
});

const folderOperatorSchema = operatorSchema.extend({
  MANIFESTS_DIR: type.folder,
  STATUS_DIR: type.folder,
  SECRETS_DIR: type.folder,
});

const clusterOperatorSchema = operatorSchema.extend({
  /** Path of the kubeconfig file. If absent, the operator runs as a pod with a service account. */
  KUBECONFIG: type.path.optional(),
  KUBE_CONTEXT: type.line.optional(),
  /** The namespace of the operator's lease and bindings. Defaults to the namespace of the pod or context. */
  OPERATOR_NAMESPACE: namespaceName.meta({ kind: "namespace" }).optional(),
  /** The namespaces whose objects the operator reconciles. If absent, all namespaces. */
  WATCH_NAMESPACES: type.namespaces.optional(),
  /** The labels of the namespaces whose objects the operator reconciles. If absent, all that it watches. */
  NAMESPACE_SELECTOR: type.labelSelector.optional(),
  /** How long a finished Delegation is kept. If absent, it is kept permanently. */
  ENDED_TTL: type.duration.optional(),
  /** How long a delegation without a Kubernetes object is kept before it is revoked. By default, forever. */
  ORPHAN_GRACE: type.duration.optional(),
  /** The id by which the API knows the cluster. Defaults to the uid of the namespace kube-system. */
  CLUSTER_ID: clusterId.meta({ kind: "cluster id" }).optional(),
});

const databaseSchema = z.object(databaseFields);
const migrateSchema = databaseSchema.extend({
  ...eventFields,
  /** Seconds for which `deputize migrate` waits for a database that is not running yet. */
  MIGRATE_WAIT_SECONDS: type.wholeNumber(0, 3_600).default(300),
});

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

/** The names of the settings of all roles. */
const ALL = Object.values(settingSchemas)
  .flat()
  .flatMap((schema) => Object.keys(schema.shape));

/** Returns the environment for another program, with these variables. */
export function environmentWith(variables: Record<string, string>): Environment {
  return { ...process.env, ...variables };
}

/** Reads the API's settings. Outside development an SMTP server must be set. Throws `ConfigError`. */
export function readApiConfig(environment: Environment = process.env): ApiConfig {
  const checks = [mailFaults, vaultFileFaults, clustersFileFaults];
  return readSettings(apiSchema, environment, { checks, others: ALL });
}

function mailFaults({ SMTP_URL, DEVELOPMENT }: Partial<ApiConfig>): Fault[] {
  if (SMTP_URL !== undefined || DEVELOPMENT !== false) return [];
  return [{ name: "SMTP_URL", message: "is required to send sign-in codes" }];
}

function vaultFileFaults(config: Partial<ApiConfig>): Fault[] {
  return pemFileFaults({
    ca: { name: "VAULT_CA_FILE", path: config.VAULT_CA_FILE },
    cert: { name: "VAULT_CERT_FILE", path: config.VAULT_CERT_FILE },
    key: { name: "VAULT_KEY_FILE", path: config.VAULT_KEY_FILE },
  });
}

function clustersFileFaults({ CLUSTERS_FILE, RECORDED_CLUSTER_ID: recorded }: Partial<ApiConfig>): Fault[] {
  if (CLUSTERS_FILE === undefined) return [];
  const { fault, entries = [] } = readClusters(CLUSTERS_FILE);
  if (fault !== undefined) return [{ name: "CLUSTERS_FILE", message: fault }];
  const own = entries.find(({ kubeconfig }) => kubeconfig === undefined);
  if (recorded === undefined || own === undefined || own.id === recorded) return [];
  const message = `names the API's own cluster ${own.id}, but the operator has recorded the id ${recorded} in the ConfigMap deputize-cluster: set operator.clusterId of the chart to ${recorded}, or change the id as docs/operator.md describes`;
  return [{ name: "CLUSTERS_FILE", message }];
}

/** Reads the worker's settings. Throws `ConfigError`. */
export function readWorkerConfig(environment: Environment = process.env): WorkerConfig {
  return readSettings(workerSchema, environment, { checks: [eventFaults], others: ALL });
}

/** Settings that select an operator for a folder of manifests. */
const FOLDERS = ["MANIFESTS_DIR", "STATUS_DIR", "SECRETS_DIR"];

/** Settings that have no effect for a folder of manifests. Setting them there is an error. */
const CLUSTER_ONLY = ["WATCH_NAMESPACES", "NAMESPACE_SELECTOR", "ENDED_TTL", "ORPHAN_GRACE"];

/**
 * Reads the operator's settings: for a folder of manifests if a folder is set, otherwise for a cluster.
 * `options`, from the command line, override the environment. Throws `ConfigError`, or `UsageError` for the
 * wrong value of an option.
 */
export function readOperatorConfig(
  settings: Environment = process.env,
  options: Environment = {},
): OperatorConfig {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) checkOption(name, value);
  const environment: Environment = { ...settings, ...Object.fromEntries(given) };
  const isGiven = (name: string) => (environment[name] ?? "") !== "";
  if (!FOLDERS.some(isGiven)) {
    const checks = [kubeconfigFaults, namespaceFaults];
    return readSettings(clusterOperatorSchema, environment, { checks, others: ALL });
  }
  const forCluster = CLUSTER_ONLY.filter(isGiven);
  const checks = [
    () => forCluster.map((name) => ({ name, message: "is for a cluster, but a folder is set" })),
  ];
  return readSettings(folderOperatorSchema, environment, { checks, others: ALL });
}

/** Throws `UsageError` if the value of an option, such as `--ended-ttl`, is wrong. */
function checkOption(name: string, value: string | undefined): void {
  const field = Object.entries(clusterOperatorSchema.shape).find(([one]) => one === name)?.[1];
  const [issue] = field?.safeParse(value).error?.issues ?? [];
  if (issue === undefined) return;
  throw new UsageError(`--${name.toLowerCase().replaceAll("_", "-")}: ${issue.message}`);
}

function namespaceFaults({ WATCH_NAMESPACES, NAMESPACE_SELECTOR }: Partial<ClusterOperatorConfig>): Fault[] {
  if (WATCH_NAMESPACES === undefined || NAMESPACE_SELECTOR === undefined) return [];
  return [{ name: "NAMESPACE_SELECTOR", message: "is set together with WATCH_NAMESPACES; set one of them" }];
}

function kubeconfigFaults({ KUBECONFIG }: Partial<ClusterOperatorConfig>): Fault[] {
  const isReadable = KUBECONFIG === undefined || readText(KUBECONFIG) !== undefined;
  return isReadable ? [] : [{ name: "KUBECONFIG", message: UNREADABLE }];
}

/** Reads the settings of `deputize migrate`. Throws `ConfigError`. */
export function readMigrateConfig(environment: Environment = process.env): z.infer<typeof migrateSchema> {
  return readSettings(migrateSchema, environment, { checks: [eventFaults], others: ALL });
}

/** Reads the settings of commands that need only the database. Throws `ConfigError`. */
export function readDatabaseConfig(environment: Environment = process.env): DatabaseUrls {
  return readSettings(databaseSchema, environment, { others: ALL });
}
