import { randomBytes, randomUUID } from "node:crypto";
import { Writable } from "node:stream";
import type Koa from "koa";
import { pino } from "pino";
import { afterAll, beforeAll } from "vitest";
import type { Mailbox } from "../../src/accounts/mail/mail.ts";
import { type ReplacedParts, startApi as startRole } from "../../src/api.ts";
import { claimLeadership } from "../../src/clusters/leader_epochs.ts";
import { acceptBinding } from "../../src/clusters/namespace_binding.ts";
import type { TrustedClusters } from "../../src/clusters/trusted_clusters.ts";
import { type ApiConfig, readApiConfig } from "../../src/config.ts";
import type { Database } from "../../src/db/database.ts";
import type { AppDeps } from "../../src/http/app.ts";
import type { Authenticators } from "../../src/http/authenticate.ts";
import { mailboxPage } from "../../src/http/mailbox_page.ts";
import type { DatabaseUrls } from "../../src/input/database_url.ts";
import type { Logger } from "../../src/log.ts";
import { createMetrics, type Metrics } from "../../src/metrics.ts";
import type { ApiPools } from "../../src/proofs/api_pools.ts";
import type { Route } from "../../src/route.ts";
import { createSecretBox, type SecretBox } from "../../src/secret_box.ts";
import { type SteeredClock, steeredClock } from "./clock.ts";
import { createFakeCluster, type FakeCluster } from "./fake_cluster.ts";
import { createFakeVault, type FakeVault } from "./fake_vault.ts";
import { createClient, type HttpAnswer, type HttpClient } from "./http.ts";
import { migratedDatabase, serviceUrls } from "./postgres.ts";
import { vaultFiles } from "./vault_files.ts";

/** Token with which the operator authenticates to the test API. The fake clusters accept it. */
export const OPERATOR_TOKEN = "operator-token-of-the-tests-32-characters";

/** The email addresses of the service administrators. */
export const ADMINISTRATORS = Array.from({ length: 100 }, (_, n) => `administrator-${n}@example.test`);

/**
 * Options of a test API. `lookupTxt: undefined` and `organizationRates: undefined` select the role's own
 * parts.
 */
export type ApiOptions = Omit<ReplacedParts, "app" | "clusters" | "receiveDatabase"> & {
  /** Settings that differ from those of {@link startApi}. */
  config?: Partial<ApiConfig>;
  /** Default: a clock that stands still at the time of the start. */
  clock?: SteeredClock;
  /** Default: an in-memory vault. */
  vault?: FakeVault;
  /** Default: fake clusters. Every cluster ID names one of them. */
  trusted?: TrustedClusters;
  /** Selects the role's own clients of the vault and of the clusters. */
  ownClients?: true;
  /** Another test API whose database and keys this API shares. */
  shares?: TestApi;
  /** A different connection string for the shared database. */
  databaseUrl?: string;
  /** Avoids the run's pooler, because the test counts connections of the server. */
  direct?: true;
  /** Additional operations and pages. */
  routes?: Route[];
  pages?: AppDeps["pages"];
  /** Replaces the console. */
  site?: AppDeps["site"];
  authenticators?: Partial<Authenticators>;
  bodies?: AppDeps["bodies"];
  /** Timeout of each call in milliseconds. Default: 30,000. */
  deadlineMs?: number;
};

/** A running API role. It has a separate database, and listens on loopback. */
export type TestApi = {
  url: string;
  /** Base URL of the operations for the operator. */
  operatorUrl: string;
  port: number;
  isReady(): Promise<boolean>;
  /** Resolves after `DRAIN_SECONDS`. */
  drain(): Promise<void>;
  db: Database;
  pools: ApiPools;
  databaseUrl: string;
  clock: SteeredClock;
  sealingKey: Buffer;
  secretBox: SecretBox;
  vault: FakeVault;
  /** The fake clusters that the API reads. */
  clusters: FakeCluster;
  log: Logger;
  metrics: Metrics;
  /** All log lines so far, unparsed. */
  lines: string[];
  /** Returns a new client with separate cookies. */
  client(): HttpClient;
  /** Returns a new client for the operator's port. */
  operatorClient(): HttpClient;
  /**
   * Creates an account and returns its signed-in person. The account accepts the namespace `default` in the
   * cluster `c1`.
   */
  person(type?: { organization_name: string }): Promise<Person>;
  /**
   * Makes a call as the operator of `cluster`. If a declaration has no `object`, it gets a separate object in
   * the namespace `default`.
   */
  operator(method: string, path: string, body?: unknown, options?: OperatorOptions): Promise<HttpAnswer>;
  /** Returns a connection's outbox events, in order. */
  events(connectionId: string): Promise<{ event: string; [field: string]: unknown }[]>;
  stop(): Promise<void>;
};

/** A signed-in person with an onboarded account. */
export type Person = { client: HttpClient; accountId: string; humanId: string; email: string };

/**
 * Options of a call from an operator. The default `epoch` is that of the cluster's leader. If the cluster has
 * no leader, the call first claims leadership.
 */
export type OperatorOptions = { cluster?: string; epoch?: number; token?: string };

/** Settings of the tests. Limits are so high that only the tests of a limit reach it. */
async function settingsOf(urls: DatabaseUrls, sealingKey: Buffer): Promise<ApiConfig> {
  const many = "100000";
  return readApiConfig({
    ...urls,
    SEALING_KEY: sealingKey.toString("base64"),
    BASE_URL: "http://127.0.0.1",
    PORT: "0",
    OPERATOR_PORT: "0",
    OPERATOR_TOKEN,
    DEVELOPMENT: "true",
    WEBHOOK_ALLOWED_CIDRS: "127.0.0.0/8",
    VAULT_URL: "https://127.0.0.1:1",
    ...(await vaultFiles()),
    SERVICE_ADMINISTRATORS: ADMINISTRATORS.join(","),
    SEND_CODE_PER_IP: many,
    SEND_CODE_PER_ADDRESS: many,
    SEND_CODE_PER_DAY: many,
    VERIFY_CODE_PER_IP: many,
    PRESENT_PER_MINUTE: many,
    AGENTS_PER_DAY: many,
    CHANGES_PER_MINUTE: many,
    REQUESTS_PER_DAY: many,
    REFUSED_PROOFS_PER_MINUTE: many,
  });
}

/**
 * Starts the API role with a migrated database. Replaces only what the options name: by default the vault and
 * the clusters are in memory, and every TXT record exists.
 */
export async function startApi(options: ApiOptions = {}): Promise<TestApi> {
  const { shares } = options;
  const database =
    shares === undefined && options.databaseUrl === undefined ? await migratedDatabase() : undefined;
  const databaseUrl = options.databaseUrl ?? database?.url ?? shares?.databaseUrl ?? "";
  const sealingKey = shares?.sealingKey ?? randomBytes(32);
  const clock = options.clock ?? shares?.clock ?? steeredClock();
  const vault = options.vault ?? shares?.vault ?? createFakeVault();
  const clusters = createFakeCluster(OPERATOR_TOKEN);
  const lines: string[] = [];
  const log = pino({ level: "debug" }, memory(lines));
  const metrics = createMetrics();
  const urls = options.direct ? { DATABASE_URL: databaseUrl } : serviceUrls(databaseUrl);
  const config = { ...(await settingsOf(urls, sealingKey)), ...options.config };
  let db!: Database;
  let pools!: ApiPools;
  let mailbox!: Mailbox;
  const role = await startRole({
    config,
    clock,
    log,
    metrics,
    version: "0.0.0",
    replaced: {
      lookupTxt: async () => "found",
      organizationRates: noRates,
      freshSeconds: 0,
      ...options,
      ...(options.ownClients !== true && { vault, clusters: options.trusted ?? clusters }),
      mailer: (own) => {
        mailbox = own as Mailbox;
        return options.mailer?.(own) ?? own;
      },
      receiveDatabase: (own, ownPools) => {
        db = own;
        pools = ownPools;
      },
      app: (app) => appOf(app, mailboxPage(mailbox), options),
    },
  });
  const url = `http://${role.host}:${role.port}`;
  const operatorUrl = `http://${config.OPERATOR_HOST}:${role.operatorPort}`;
  const operatorClient = () => createClient(operatorUrl, config.SERVICE_WORD);
  const client = () => createClient(url, config.SERVICE_WORD);
  const operator = operatorClient();
  const api: TestApi = {
    ...{
      url,
      operatorUrl,
      port: role.port,
      db,
      pools,
      databaseUrl,
      clock,
      sealingKey,
      vault,
      clusters,
      log,
      metrics,
      lines,
    },
    isReady: role.isReady,
    drain: role.drain,
    secretBox: createSecretBox(sealingKey),
    client,
    operatorClient,
    async person(type) {
      const own = client();
      const email = `${randomUUID()}@example.test`;
      const { account_id, human_id } = await own.onboard(email, type);
      const place = { clusterId: "c1", namespace: "default" };
      await acceptBinding(api, account_id, place, { ceiling: null, fourEyes: false, by: account_id });
      return { client: own, accountId: account_id, humanId: human_id, email };
    },
    async operator(method, path, body, { cluster = "c1", epoch, token = OPERATOR_TOKEN } = {}) {
      const headers = {
        authorization: `Bearer ${token}`,
        "x-deputize-cluster": cluster,
        "x-deputize-epoch": String(epoch ?? (await leaderOf(api, cluster))),
      };
      return operator.call(method, path, { body: withObject(method, path, body), headers });
    },
    async events(connectionId) {
      const rows = await db("outbox").where({ aggregateid: connectionId }).orderBy("aggregate_seq");
      return rows.map((row) => JSON.parse(row.payload));
    },
    async stop() {
      await role.stop();
      await database?.drop();
    },
  };
  return api;
}

const noRates: NonNullable<ReplacedParts["organizationRates"]> = {
  takeInvitation: async () => {},
  giveBackInvitation: async () => {},
  takeLookup: async () => {},
};

function appOf(
  app: AppDeps,
  mailbox: Koa.Middleware,
  { routes = [], pages = [], deadlineMs = 30_000, ...options }: ApiOptions,
): AppDeps {
  const { site, bodies, authenticators } = options;
  return {
    ...app,
    routes: [...app.routes, ...routes],
    pages: [...(app.pages ?? []), mailbox, ...pages],
    authenticators: { ...app.authenticators, ...authenticators },
    ...(site && { site }),
    ...(bodies && { bodies }),
    deadlineMs,
    checkAnswers: true,
  };
}

function memory(lines: string[]): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
}

/**
 * Adds the object's namespace and name to a declaration's body. The name is derived from the object's uid.
 */
function withObject(method: string, path: string, body: unknown): unknown {
  if (method !== "PUT" || typeof body !== "object" || body === null) return body;
  const uid = decodeURIComponent(path.split("/").at(-1) ?? "").replace(/^[^.]*\./, "");
  const name = uid.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-") || "none";
  return { object: { namespace: "default", name }, ...body };
}

/** Returns the epoch of a cluster's leader. If there is no leader, claims leadership first. */
export async function leaderOf(deps: Pick<TestApi, "db" | "clock">, clusterId: string): Promise<number> {
  const known = await deps.db("operator_clusters").where("cluster_id", clusterId).first("epoch");
  return known?.epoch ?? claimLeadership(deps, { clusterId });
}

/** Starts an API before the first test of a file, and stops it after the last test. */
export function runningApi(options?: ApiOptions): TestApi {
  const api = {} as TestApi;
  beforeAll(async () => {
    Object.assign(api, await startApi(options));
  });
  afterAll(() => api.stop());
  return api;
}

/** Starts two replicas of the API on the same database. */
export async function startReplicas(options: ApiOptions = {}): Promise<[TestApi, TestApi]> {
  const first = await startApi(options);
  return [first, await startApi({ ...options, shares: first })];
}

/** Runs another replica of an API on the same database while `use` runs. */
export async function withReplica(
  first: TestApi,
  options: ApiOptions,
  use: (replica: TestApi) => Promise<void>,
): Promise<void> {
  const replica = await startApi({ shares: first, ...options });
  try {
    await use(replica);
  } finally {
    await replica.stop();
  }
}
