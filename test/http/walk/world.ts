import { randomBytes, randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll } from "vitest";
import { createMailbox } from "../../../src/accounts/mail/mail.ts";
import type { Mail } from "../../../src/accounts/mail/smtp.ts";
import { createFindSession, createSessionTokens } from "../../../src/accounts/sessions/sessions.ts";
import { createCodeHashes } from "../../../src/accounts/sign_in/codes.ts";
import { apiRoutes } from "../../../src/api.ts";
import { createIsLeader } from "../../../src/clusters/leader_epochs.ts";
import { acceptBinding } from "../../../src/clusters/namespace_binding.ts";
import { type Database, openDatabase, openPool } from "../../../src/db/database.ts";
import { createSendingRates } from "../../../src/deliveries/sending_limits.ts";
import { type AppDeps, createApp } from "../../../src/http/app.ts";
import { createIdempotency } from "../../../src/http/idempotency.ts";
import { mailboxPage } from "../../../src/http/mailbox_page.ts";
import { openApiDocument } from "../../../src/http/openapi/openapi.ts";
import { startServer } from "../../../src/http/server/server.ts";
import { openInstallation } from "../../../src/installation/open_installation.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { createActivity } from "../../../src/organizations/activity.ts";
import type { OrganizationRates } from "../../../src/organizations/rates.ts";
import type { TxtLookup } from "../../../src/organizations/verify_domain.ts";
import { createApiKeyFinder } from "../../../src/platforms/api_keys/api_key_finder.ts";
import { createDecisionQueue } from "../../../src/proofs/admission/admission.ts";
import { PATIENT_LOCK_MS, QUICK_LOCK_MS } from "../../../src/proofs/admission/batch.ts";
import { createApiKeyRates } from "../../../src/rates/api_key_rates.ts";
import { createClientRates } from "../../../src/rates/client_rates.ts";
import type { Route } from "../../../src/route.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { createAddressPolicy } from "../../../src/webhooks/callback_address.ts";
import { OPERATOR_TOKEN } from "../../support/api.ts";
import { type SteeredClock, steeredClock } from "../../support/clock.ts";
import { createFakeCluster, type FakeCluster } from "../../support/fake_cluster.ts";
import { createFakeVault, type FakeVault } from "../../support/fake_vault.ts";
import { createClient, type HttpClient } from "../../support/http.ts";
import { anyClusterWith } from "../../support/operators.ts";
import type { Person } from "../../support/platform_world.ts";
import { migratedDatabase } from "../../support/postgres.ts";
import { type OpenApiDocument, readOpenApiDocument } from "./openapi_document.ts";

/** The whole API with every operation and its document. Every person is a service administrator. */
export type WholeApi = {
  url: string;
  operatorUrl: string;
  db: Database;
  databaseUrl: string;
  clock: SteeredClock;
  vault: FakeVault;
  clusters: FakeCluster;
  routes: Route[];
  contract: OpenApiDocument;
  client(): HttpClient;
  /** Returns a client signed in to a new account. */
  person(type?: { organization_name: string }): Promise<Person>;
  stop(): Promise<void>;
};

export type WholeApiOptions = {
  /** Default: a new database. */
  databaseUrl?: string;
  perIp?: number;
  alphaCredits?: number;
  deadlineMs?: number;
  /** Default: finds every record, except for names that contain `missing`. */
  lookupTxt?: TxtLookup;
  /** Default: no limits. */
  organizationRates?: (db: Database) => OrganizationRates;
  /** Called before the mailbox stores a message. Default: does nothing. */
  beforeMail?: (mail: Mail) => Promise<void>;
};

const noRates: OrganizationRates = {
  takeInvitation: async () => {},
  giveBackInvitation: async () => {},
  takeLookup: async () => {},
};

export async function startWholeApi(options: WholeApiOptions = {}): Promise<WholeApi> {
  const database = options.databaseUrl === undefined ? await migratedDatabase() : undefined;
  const url = options.databaseUrl ?? database?.url ?? "";
  const log = pino({ level: "silent" });
  const onError = () => {};
  const db = openDatabase({ url, name: "walk", onError });
  const pool = (lockMs: number) => openPool({ url, name: "walk", lockMs, onError });
  const [decisions, patient, rated] = [pool(QUICK_LOCK_MS), pool(PATIENT_LOCK_MS), pool(PATIENT_LOCK_MS)];
  const sealingKey = randomBytes(32);
  const [secretBox, clock, vault] = [createSecretBox(sealingKey), steeredClock(), createFakeVault()];
  const clusters = createFakeCluster();
  const mailbox = createMailbox({ log, clock });
  const apiKeys = createApiKeyFinder({ db, clock, url, onError });
  const limits = { presentPerMinute: 100_000, agentsPerDay: 100_000 };
  const keyRates = createApiKeyRates({ db, clock, limits });
  const [baseUrl, metrics] = ["http://127.0.0.1", createMetrics()];
  const installation = openInstallation({
    ...{ url, clock, log, version: "0.0.0", certificateFile: "none" },
    vault: { health: async () => {} },
  });
  const routes = apiRoutes({
    ...{ db, secretBox, clock, vault, log, decisions, patient, rated, apiKeys, baseUrl, clusters },
    mailer: {
      async send(mail) {
        await options.beforeMail?.(mail);
        await mailbox.send(mail);
      },
    },
    hashes: createCodeHashes(sealingKey),
    tokens: createSessionTokens(sealingKey),
    sendingRates: createSendingRates(db),
    lookupTxt: options.lookupTxt ?? (async (name) => (name.includes("missing") ? "absent" : "found")),
    acceptUrl: "https://console.test/accept",
    organizationRates: options.organizationRates?.(db) ?? noRates,
    rates: createClientRates({ db, sends: options.perIp ?? 100_000, tries: 100_000 }),
    bounds: { perClient: 100_000, perDay: 100_000 },
    signInUrl: undefined,
    alphaCredits: options.alphaCredits ?? 1_000_000_000,
    accountCeiling: undefined,
    metrics,
    queue: createDecisionQueue(metrics),
    refusedPerMinute: 100_000,
    takePresent: (caller) => keyRates.take("present", caller),
    callbacks: createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] }),
    findApiKey: apiKeys.find,
    installation,
    word: "service",
  });
  const document = openApiDocument(routes, { baseUrl, word: "service", version: "0.0.0" });
  const config = {
    BASE_URL: baseUrl,
    SERVICE_WORD: "service",
    SERVICE_WORD_ALIASES: [],
    TRUSTED_PROXIES: [],
  };
  const app: AppDeps = {
    config,
    routes,
    authenticators: {
      findSession: createFindSession({ db, clock }),
      findApiKey: apiKeys.find,
      isServiceAdministrator: () => true,
      identifyOperator: anyClusterWith(OPERATOR_TOKEN),
      isLeader: createIsLeader({ db }),
    },
    idempotency: createIdempotency({ db, secretBox, clock, log }),
    activity: createActivity({ db, clock, log }),
    rates: keyRates,
    log,
    clock,
    metrics,
    checkAnswers: true,
    deadlineMs: options.deadlineMs ?? 30_000,
  };
  const place = { host: "127.0.0.1", port: 0 };
  const server = await startServer(createApp({ ...app, pages: [mailboxPage(mailbox)] }), place);
  const operatorServer = await startServer(createApp({ ...app, forOperator: true }), place);
  const serverUrl = `http://127.0.0.1:${server.port}`;
  const operatorUrl = `http://127.0.0.1:${operatorServer.port}`;
  const client = () => createClient(serverUrl);
  return {
    operatorUrl,
    ...{ url: serverUrl, db, databaseUrl: url, clock, vault, clusters, routes, client },
    contract: readOpenApiDocument(document),
    async person(type) {
      const own = client();
      const email = `${randomUUID()}@example.test`;
      const { account_id, human_id } = await own.onboard(email, type);
      const place = { clusterId: "c1", namespace: "default" };
      await acceptBinding({ db, clock }, account_id, place, { ceiling: null, fourEyes: false });
      return { client: own, accountId: account_id, humanId: human_id, email };
    },
    async stop() {
      await Promise.all([server.stop(1_000), operatorServer.stop(1_000)]);
      await apiKeys.close();
      await installation.close();
      await Promise.all([db.destroy(), decisions.end(), patient.end(), rated.end()]);
      await database?.drop();
    },
  };
}

export function wholeApi(options?: WholeApiOptions): WholeApi {
  const api = {} as WholeApi;
  beforeAll(async () => {
    Object.assign(api, await startWholeApi(options));
  });
  afterAll(() => api.stop());
  return api;
}
