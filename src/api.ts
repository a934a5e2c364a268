import { setTimeout as sleep } from "node:timers/promises";
import { createMailer } from "./accounts/mail/mail.ts";
import type { Mailer } from "./accounts/mail/smtp.ts";
import { createStopTokens } from "./accounts/mailings/stop_links.ts";
import { startNotices } from "./accounts/notices/sender.ts";
import { createIsServiceAdministrator } from "./accounts/service_administrators.ts";
import { createFindSession, createSessionTokens } from "./accounts/sessions/sessions.ts";
import { createCodeHashes } from "./accounts/sign_in/codes.ts";
import type { ComparedClock } from "./clock.ts";
import { createIdentifyOperator } from "./clusters/identify_operator.ts";
import { createIsLeader } from "./clusters/leader_epochs.ts";
import { openClusters, readClustersFile, type TrustedClusters } from "./clusters/trusted_clusters.ts";
import type { ApiConfig } from "./config.ts";
import { readAssets } from "./console/core/assets.ts";
import { createConsole } from "./console/core/console.ts";
import { ACCEPT_INVITATION, ENTER_CODE } from "./console/core/places.ts";
import { consolePages } from "./console/pages.ts";
import type { Database } from "./db/database.ts";
import { createSendingRates } from "./deliveries/sending_limits.ts";
import { type ApiRoutesDeps, apiRoutes } from "./http/api_routes.ts";
import { type AppDeps, createApp, frontPage } from "./http/app.ts";
import { asyncApiDocument, asyncApiPage } from "./http/asyncapi/asyncapi.ts";
import { createPeerClient } from "./http/client_address.ts";
import { docsPage } from "./http/docs/page.ts";
import { createIdempotency } from "./http/idempotency.ts";
import { mailboxPage } from "./http/mailbox_page.ts";
import { jsonPage, type PageTime } from "./http/openapi/json_page.ts";
import { openApiDocument } from "./http/openapi/openapi.ts";
import { publishedDocument } from "./http/openapi/published.ts";
import { seenClientPage } from "./http/server/seen_client.ts";
import { addressOf, startServer } from "./http/server/server.ts";
import { rootOf } from "./input/url.ts";
import { openInstallation } from "./installation/open_installation.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { createActivity } from "./organizations/activity.ts";
import { createOrganizationRates } from "./organizations/rates.ts";
import { createTxtLookup } from "./organizations/verify_domain.ts";
import { createApiKeyFinder } from "./platforms/api_keys/api_key_finder.ts";
import { keepVaultSynced, type VaultSyncDeps } from "./platforms/sync_vault.ts";
import { createDecisionQueue } from "./proofs/admission/admission.ts";
import { type ApiPools, openConnections } from "./proofs/api_pools.ts";
import { createActionLimits } from "./rates/action_limits.ts";
import { createApiKeyRates } from "./rates/api_key_rates.ts";
import { createChangeRates } from "./rates/change_rates.ts";
import { createClientRates } from "./rates/client_rates.ts";
import { createRequestRate } from "./rates/request_rate.ts";
import { createSecretBox } from "./secret_box.ts";
import { startUpkeep } from "./upkeep.ts";
import { createVaultClient, type VaultClient } from "./vault/client.ts";
import { readCredentials, showCertificateEnd } from "./vault/credentials.ts";
import { createAddressPolicy } from "./webhooks/callback_address.ts";

/** The running API. */
export type Api = {
  host: string;
  port: number;
  /** The port for operators' calls. `undefined` without an operator token or a clusters file. */
  operatorPort: number | undefined;
  /**
   * Returns whether calls can be served: the database accepts changes and has a schema that this version
   * supports. The vault's state does not matter, because decisions do not need the vault.
   */
  isReady(): Promise<boolean>;
  /** Continues to serve for `DRAIN_SECONDS`. Each response announces that the connection will close. */
  drain(): Promise<void>;
  /** Waits for running calls to finish, then closes all resources. */
  stop(): Promise<void>;
};

/** Dependencies of the API role. */
export type ApiDeps = {
  config: ApiConfig;
  clock: ComparedClock;
  log: Logger;
  metrics: Metrics;
  version: string;
  /** When `/openapi.json`, `/asyncapi.json` and `/docs` are created. */
  documents?: PageTime;
  replaced?: ReplacedParts;
};

/** Replacements for parts of the API, for tests. All other parts are the same as in production. */
export type ReplacedParts = Partial<Pick<ApiRoutesDeps, "queue">> & {
  lookupTxt?: ApiRoutesDeps["lookupTxt"] | undefined;
  organizationRates?: ApiRoutesDeps["organizationRates"] | undefined;
  vault?: ApiVault;
  clusters?: TrustedClusters;
  /** Wraps the mailer. */
  mailer?: (own: Mailer) => Mailer;
  /** Seconds for which the result of a check of the installation is reused. */
  freshSeconds?: number;
  /** Receives the API's database and its further pools. */
  receiveDatabase?: (db: Database, pools: ApiPools) => void;
  /** Changes the HTTP application before it starts to listen. */
  app?: (app: AppDeps) => AppDeps;
};

/** The calls that the API makes to the vault. */
export type ApiVault = ApiRoutesDeps["vault"] &
  VaultSyncDeps["vault"] &
  Pick<VaultClient, "health" | "close">;

/** Assembles the API and starts to listen. Needs a migrated database. The vault may start later. */
export async function startApi({
  config,
  clock,
  log,
  metrics,
  version,
  documents = "at_request",
  replaced = {},
}: ApiDeps): Promise<Api> {
  const connections = openConnections(config, log);
  const { db, pools, direct, opened, sizes } = connections;
  const { DATABASE_URL: url, CLUSTERS_FILE } = config;
  replaced.receiveDatabase?.(db, pools);
  const sealingKey = Buffer.from(config.SEALING_KEY, "base64");
  const secretBox = createSecretBox(sealingKey);
  const stopTokens = createStopTokens(sealingKey);
  const vault = replaced.vault ?? (await openVault(config));
  const certificateFile = config.VAULT_CERT_FILE;
  showCertificateEnd(metrics, certificateFile);
  const entries = CLUSTERS_FILE === undefined ? [] : readClustersFile(CLUSTERS_FILE);
  const clusters = replaced.clusters ?? (await openClusters(entries, { clock }));
  const { mailer: ownMailer, mailbox } = createMailer(config, { log, clock });
  const mailer = replaced.mailer?.(ownMailer) ?? ownMailer;
  const apiKeys = createApiKeyFinder({ ...direct, db, clock });
  const idempotency = createIdempotency({ db, secretBox, clock, log });
  const callbacks = createAddressPolicy({
    development: config.DEVELOPMENT,
    allowedCidrs: config.WEBHOOK_ALLOWED_CIDRS,
  });
  const limits = { presentPerMinute: config.PRESENT_PER_MINUTE, agentsPerDay: config.AGENTS_PER_DAY };
  const keyRates = createApiKeyRates({ db, clock, limits });
  const changeRates = createChangeRates({ perMinute: config.CHANGES_PER_MINUTE, clock });
  const shared = { db, secretBox, clock, vault, log, clusters, metrics };
  const lookupTxt = replaced.lookupTxt ?? createTxtLookup(config.DOMAIN_RESOLVERS);
  const { freshSeconds } = replaced;
  const installation = openInstallation({
    ...shared,
    url,
    opened,
    sizes,
    certificateFile,
    version,
    freshSeconds,
  });
  const routes = apiRoutes({
    ...shared,
    installation,
    lookupTxt,
    mailer,
    hashes: createCodeHashes(sealingKey),
    tokens: createSessionTokens(sealingKey),
    stopTokens,
    signInDays: config.SIGN_IN_DAYS,
    organizationRates: replaced.organizationRates ?? createOrganizationRates(db),
    sendingRates: createSendingRates(db),
    actionLimits: createActionLimits({ db, metrics }),
    changeRates,
    requestRate: createRequestRate(db, config.REQUESTS_PER_DAY),
    rates: createClientRates({ db, sends: config.SEND_CODE_PER_IP, tries: config.VERIFY_CODE_PER_IP }),
    bounds: { perClient: config.SEND_CODE_PER_ADDRESS, perDay: config.SEND_CODE_PER_DAY },
    signInUrl: config.SIGN_IN_URL ?? pageUrl(config, ENTER_CODE),
    acceptUrl: pageUrl(config, ACCEPT_INVITATION),
    alphaCredits: config.ALPHA_CREDITS_MICRO_USD,
    accountCeiling: config.ACCOUNT_CEILING,
    callbacks,
    root: rootOf(config.BASE_URL),
    apiKeys,
    ...pools,
    queue: replaced.queue ?? createDecisionQueue(metrics),
    refusedPerMinute: config.REFUSED_PROOFS_PER_MINUTE,
    keyRates,
    findApiKey: apiKeys.find,
    baseUrl: config.BASE_URL,
    word: config.SERVICE_WORD,
  });
  const named = { baseUrl: config.BASE_URL, word: config.SERVICE_WORD, version };
  const document = () => openApiDocument(routes, named);
  const { assets, serve } = readAssets(new URL(config.BASE_URL).pathname.replace(/\/+$/, ""));
  const pages = [
    serve,
    jsonPage("/openapi.json", () => publishedDocument(document()), documents),
    asyncApiPage(() => asyncApiDocument(named), documents),
    docsPage(document, documents),
    frontPage(pageUrl(config, "/console")),
    seenClientPage(shared, config.TRUSTED_PROXIES),
    ...(mailbox && config.DEVELOPMENT ? [mailboxPage(mailbox)] : []),
  ];
  const app: AppDeps = {
    routes,
    pages,
    site: createConsole({ pages: consolePages, assets, clock, contact: config.SUPPORT_CONTACT }),
    config,
    authenticators: {
      findSession: createFindSession({ db, clock }),
      findApiKey: apiKeys.find,
      isServiceAdministrator: createIsServiceAdministrator(config.SERVICE_ADMINISTRATORS),
      identifyOperator: createIdentifyOperator({
        db,
        clock,
        clusters,
        sharedToken: config.OPERATOR_TOKEN,
      }),
      isLeader: createIsLeader({ db }),
    },
    idempotency,
    rates: keyRates,
    changeRates,
    activity: createActivity({ db, clock, log }),
    bodies: { perClient: config.BODIES_PER_IP },
    log,
    clock,
    metrics,
  };
  const upkeep = await startUpkeep({
    db,
    pool: pools.patient,
    months: pools.months,
    clock,
    idempotency,
    apiKeys,
    invocationDays: config.INVOCATION_DAYS,
    undecidedDays: config.UNDECIDED_REQUEST_DAYS,
    retentionMonths: config.HISTORY_RETENTION_MONTHS,
    domains: { lookupTxt, word: config.SERVICE_WORD },
    log,
  });
  const vaultSync = keepVaultSynced(shared);
  const place = { baseUrl: config.BASE_URL, word: config.SERVICE_WORD, contact: config.SUPPORT_CONTACT };
  const notices = startNotices({ db, clock, mailer, log, metrics, place, stopTokens });
  const servers = await startServers(replaced.app?.(app) ?? app, config);
  const { host, port, operatorPort } = servers;
  log.info({ host, port, operator_port: operatorPort }, "api listens");

  return {
    host,
    port,
    operatorPort,
    isReady: connections.isReady,
    async drain() {
      servers.drain();
      await sleep(config.DRAIN_SECONDS * 1000);
    },
    async stop() {
      await servers.stop();
      await upkeep.stop();
      await vaultSync.stop();
      await notices.stop();
      await apiKeys.close();
      await installation.close();
      await vault.close();
      await clusters.close();
      mailer.close();
      await connections.close();
    },
  };
}

function pageUrl({ BASE_URL }: Pick<ApiConfig, "BASE_URL">, path: string): string {
  return `${rootOf(BASE_URL)}${path}`;
}

async function openVault(config: ApiConfig): Promise<VaultClient> {
  const files = { ca: config.VAULT_CA_FILE, cert: config.VAULT_CERT_FILE, key: config.VAULT_KEY_FILE };
  return createVaultClient({ url: config.VAULT_URL, ...(await readCredentials(files)), files });
}

/** Operators' calls have a separate port, which is opened only if there are operators. */
async function startServers(app: AppDeps, config: ApiConfig) {
  const limits = {
    connections: config.CONNECTIONS,
    perClient: config.CONNECTIONS_PER_IP,
    keepAliveMs: config.KEEP_ALIVE_SECONDS * 1000,
    clientOf: createPeerClient(config.TRUSTED_PROXIES),
  };
  const { OPERATOR_TOKEN, CLUSTERS_FILE } = config;
  const { pages: _pages, site: _site, ...common } = app;
  const server = await startServer(createApp(app), { ...addressOf(config, "HOST", "PORT"), limits });
  const operator =
    OPERATOR_TOKEN === undefined && CLUSTERS_FILE === undefined
      ? undefined
      : await startServer(
          createApp({ ...common, forOperator: true }),
          addressOf(config, "OPERATOR_HOST", "OPERATOR_PORT"),
        );
  return {
    host: server.host,
    port: server.port,
    operatorPort: operator?.port,
    drain() {
      server.drain();
      operator?.drain();
    },
    stop: () => Promise.all([server.stop(), operator?.stop()]),
  };
}
