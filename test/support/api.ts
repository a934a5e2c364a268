import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { pino } from "pino";
import { createMailbox } from "../../src/accounts/mail/mail.ts";
import type { Mailer } from "../../src/accounts/mail/smtp.ts";
import { accountsRoutes } from "../../src/accounts/routes.ts";
import { createFindSession, createSessionTokens } from "../../src/accounts/sessions/sessions.ts";
import { type CodeHashes, createCodeHashes } from "../../src/accounts/sign_in/codes.ts";
import type { Clock } from "../../src/clock.ts";
import type { IdentifyOperator } from "../../src/clusters/identify_operator.ts";
import { createIsLeader } from "../../src/clusters/leader_epochs.ts";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { type AppDeps, createApp } from "../../src/http/app.ts";
import { createIdempotency } from "../../src/http/idempotency.ts";
import { mailboxPage } from "../../src/http/mailbox_page.ts";
import { type RunningServer, startServer } from "../../src/http/server/server.ts";
import type { Logger } from "../../src/log.ts";
import { createMetrics, type Metrics } from "../../src/metrics.ts";
import { createActivity } from "../../src/organizations/activity.ts";
import { type ApiKeyLimits, type ApiKeyRates, createApiKeyRates } from "../../src/rates/api_key_rates.ts";
import { createClientRates } from "../../src/rates/client_rates.ts";
import type { ApiKeyCaller, Route } from "../../src/route.ts";
import { createSecretBox, type SecretBox } from "../../src/secret_box.ts";
import { type SteeredClock, steeredClock } from "./clock.ts";
import { createFakeVault, type FakeVault } from "./fake_vault.ts";
import { createClient, type HttpClient } from "./http.ts";
import { anyClusterWith } from "./operators.ts";
import { migratedDatabase } from "./postgres.ts";

export const OPERATOR_TOKEN = "operator-token-of-the-tests-32-characters";

export type TestParts = {
  db: Database;
  databaseUrl: string;
  clock: Clock;
  secretBox: SecretBox;
  vault: FakeVault;
  log: Logger;
  metrics: Metrics;
  mailer: Pick<Mailer, "send">;
  hashes: CodeHashes;
  keyRates: ApiKeyRates;
};

export type ApiOptions = {
  /** Routes to add to those of accounts. */
  routes?: (parts: TestParts) => Route[];
  findApiKey?: (parts: TestParts) => (presented: string) => Promise<ApiKeyCaller | undefined>;
  config?: Partial<AppDeps["config"]>;
  pages?: AppDeps["pages"];
  site?: AppDeps["site"];
  /** Default: a clock that stands still at the time of the start. */
  clock?: SteeredClock;
  mailer?: Pick<Mailer, "send">;
  perIp?: number;
  perAddress?: number;
  perDay?: number;
  /** Limits for API keys. Default: 100,000 of each. */
  limits?: Partial<ApiKeyLimits>;
  bodies?: AppDeps["bodies"];
  triesPerIp?: number;
  signInUrl?: string;
  alphaCredits?: number;
  accountCeiling?: string[];
  /** Default: the same token identifies the operator of every cluster. */
  identifyOperator?: (parts: TestParts) => IdentifyOperator;
  /** Default: nobody is an administrator. */
  isServiceAdministrator?: (email: string) => boolean;
  /** Default: an in-memory vault. */
  vault?: FakeVault;
  /** Another test API whose database this API shares. */
  shares?: TestApi;
  /** Timeout of each call in milliseconds. */
  deadlineMs?: number;
  /** Another connection string for the shared database. */
  databaseUrl?: string;
};

/** The API with the account routes and a separate database, on loopback. */
export type TestApi = TestParts & {
  url: string;
  operatorUrl: string;
  sealingKey: Buffer;
  clock: SteeredClock;
  server: RunningServer;
  /** All log lines so far, unparsed. */
  lines: string[];
  /** Returns a new client with separate cookies. */
  client(): HttpClient;
  operatorClient(): HttpClient;
  stop(): Promise<void>;
};

/** Starts a test API. By default the limits on sign-in codes are high. */
export async function startApi(options: ApiOptions = {}): Promise<TestApi> {
  const database = options.shares === undefined ? await migratedDatabase() : undefined;
  const databaseUrl = options.databaseUrl ?? database?.url ?? options.shares?.databaseUrl ?? "";
  const lines: string[] = [];
  const log = pino({ level: "debug" }, memory(lines));
  const db = openDatabase({ url: databaseUrl, name: "test-api", onError: () => {} });
  const sealingKey = options.shares?.sealingKey ?? randomBytes(32);
  const secretBox = createSecretBox(sealingKey);
  const clock = options.clock ?? options.shares?.clock ?? steeredClock();
  const vault = options.vault ?? options.shares?.vault ?? createFakeVault();
  const mailbox = createMailbox({ log, clock });
  const metrics = createMetrics();
  const mailer = options.mailer ?? mailbox;
  const hashes = createCodeHashes(sealingKey);
  const limits = { presentPerMinute: 100_000, agentsPerDay: 100_000, ...options.limits };
  const keyRates = createApiKeyRates({ db, clock, limits });
  const parts: TestParts = {
    db,
    databaseUrl,
    clock,
    secretBox,
    vault,
    log,
    metrics,
    mailer,
    hashes,
    keyRates,
  };
  const config = {
    BASE_URL: "http://127.0.0.1",
    SERVICE_WORD: "service",
    SERVICE_WORD_ALIASES: [],
    TRUSTED_PROXIES: [],
    ...options.config,
  };
  const accounts = accountsRoutes({
    ...parts,
    tokens: createSessionTokens(sealingKey),
    rates: createClientRates({ db, sends: options.perIp ?? 1000, tries: options.triesPerIp ?? 1000 }),
    bounds: { perClient: options.perAddress ?? 1000, perDay: options.perDay ?? 1000 },
    signInUrl: options.signInUrl,
    alphaCredits: options.alphaCredits ?? 10_000_000,
    accountCeiling: options.accountCeiling,
  });
  const app: AppDeps = {
    config,
    routes: [...accounts, ...(options.routes?.(parts) ?? [])],
    authenticators: {
      findSession: createFindSession({ db, clock }),
      findApiKey: options.findApiKey?.(parts) ?? (async () => undefined),
      isServiceAdministrator: administratorsOf(options),
      identifyOperator: identifierOf(options, parts),
      isLeader: createIsLeader({ db }),
    },
    idempotency: createIdempotency({ db, secretBox, clock, log }),
    activity: createActivity({ db, clock, log }),
    rates: keyRates,
    bodies: options.bodies,
    log,
    clock,
    metrics,
    checkAnswers: true,
    deadlineMs: options.deadlineMs ?? 30_000,
  };
  const pages = [mailboxPage(mailbox), ...(options.pages ?? [])];
  const place = { host: "127.0.0.1", port: 0 };
  const server = await startServer(createApp({ ...app, pages, ...siteOf(options) }), place);
  const operatorServer = await startServer(createApp({ ...app, forOperator: true }), place);
  const operatorUrl = `http://127.0.0.1:${operatorServer.port}`;
  const url = `http://127.0.0.1:${server.port}`;
  return {
    ...parts,
    url,
    operatorUrl,
    sealingKey,
    clock,
    server,
    metrics,
    lines,
    client: () => createClient(url, config.SERVICE_WORD),
    operatorClient: () => createClient(operatorUrl, config.SERVICE_WORD),
    async stop() {
      await Promise.all([server.stop(1_000), operatorServer.stop(1_000)]);
      await db.destroy();
      await database?.drop();
    },
  };
}

function administratorsOf({ isServiceAdministrator = () => false }: ApiOptions) {
  return isServiceAdministrator;
}

function siteOf({ site }: ApiOptions): Pick<AppDeps, "site"> {
  return site === undefined ? {} : { site };
}

function memory(lines: string[]): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
}

function identifierOf({ identifyOperator }: ApiOptions, parts: TestParts): IdentifyOperator {
  return identifyOperator?.(parts) ?? anyClusterWith(OPERATOR_TOKEN);
}
