import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import pg from "pg";
import type { Caller } from "../../keyvault/audit/record.ts";
import { type ChainVerdict, verifyChain } from "../../keyvault/audit/verify_chain.ts";
import { type ComparedClock, unixSeconds } from "../../keyvault/clock.ts";
import { type Config, loadConfig } from "../../keyvault/config.ts";
import { isRefusal } from "../../keyvault/errors.ts";
import { initialize } from "../../keyvault/init.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../keyvault/keys/change.ts";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import type { KeyRequest } from "../../keyvault/keys/new_key.ts";
import { createLog } from "../../keyvault/log.ts";
import { type Serving, serve } from "../../keyvault/serve.ts";
import { createChallengeSigning } from "../../keyvault/sign/challenge.ts";
import { type Identity, issueCertificate, type Subject } from "../../keyvault/tls/authority.ts";
import type { Vault } from "../../keyvault/vault.ts";
import { testDatabase } from "../support/postgres.ts";
import { runPart } from "../support/run_parts.ts";
import { type Answer, type Client, call } from "./http/caller_support.ts";
import { copyVault, OWNER_AND_RUNNING } from "./template.ts";

export const SILENT = createLog("silent");
export const API: Caller = { role: "api", name: "api" };
export const ADMIN: Caller = { role: "admin", name: "admin" };
/** Two admins who can approve each other's requests. */
export const ADMINS: readonly Caller[] = ["alice", "bob"].map((name) => ({
  role: "admin",
  name,
  certificate: name,
}));

/** A clock that shows the machine's time at its creation and stands still until a test moves it. */
export type TestClock = ComparedClock & { at: Date; move(seconds: number): void };

export function testClock(): TestClock {
  const clock: TestClock = {
    at: new Date(),
    now: () => clock.at,
    agreed: () => clock.at,
    move: (seconds) => {
      clock.at = new Date(clock.at.getTime() + seconds * 1000);
    },
  };
  return clock;
}

/** The folder and database of an initialized vault that is not running. */
export type VaultHome = {
  dir: string;
  environment: Record<string, string>;
  config: Config;
  sql<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  remove(): Promise<void>;
};

/** Origin of a home: a copy of the run's initialized vault, the result of `keyvault init`, or empty. */
export type HomeOptions = { made?: "copied" | "by init" | "empty" };

/** Creates a home for one test. All copied homes share one token, PIN, authority and service key. */
export async function createHome({ made = "copied" }: HomeOptions = {}): Promise<VaultHome> {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-test-"));
  const database = await (made === "copied" ? copyVault(join(dir, "data")) : testDatabase(OWNER_AND_RUNNING));
  const environment = {
    KEYVAULT_DATA_DIR: join(dir, "data"),
    KEYVAULT_DATABASE_URL: database.guestUrl,
    KEYVAULT_MIGRATION_DATABASE_URL: database.url,
    KEYVAULT_PORT: "0",
    KEYVAULT_HEALTH_PORT: "0",
    KEYVAULT_LOG_LEVEL: "silent",
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(runPart("runFolder"), "compile_cache"),
  };
  const config = loadConfig(environment);
  if (made === "by init") await initialize(config, { now: () => new Date() }, SILENT);
  const pool = new pg.Pool({ connectionString: database.url, max: 2 });
  pool.on("error", () => {});
  return {
    dir,
    environment,
    config,
    sql: async <Row extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
      (await pool.query<Row>(text, values)).rows,
    async remove() {
      await pool.end();
      await database.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A running vault with its own clock. */
export type TestVault = Omit<Serving, "vault"> & {
  home: VaultHome;
  /** Throws if the vault has never been unsealed. */
  readonly vault: Vault;
  clock: TestClock;
  url: string;
  /** Identities that `keyvault init` created. */
  readonly api: Identified;
  readonly admin: Identified;
  /** Sends a GET over HTTPS on a new connection, as an admin by default. */
  get(path: string, client?: Client): Promise<Answer>;
  /** Sends a POST like `get`, by default as the API. */
  post(path: string, body?: unknown, client?: Client, headers?: Record<string, string>): Promise<Answer>;
  /** Dependencies of the operations. Every admin certificate is accepted. */
  parts(): Vault & { clock: ComparedClock; accepts(): boolean };
  /** Returns the vault's time in Unix seconds. */
  now(): number;
  /** Creates a key directly, without HTTP. Throws if the vault refuses. */
  makeKey(request: KeyRequest, requestKey?: string): Promise<CreatedKey>;
  makeAgent(tenant: string, ceiling?: string[]): Promise<CreatedKey>;
  /** Returns the body of a call that signs a challenge of the vault's current time. */
  challenge(tenant?: string): { tenant: string; challenge: string; challenge_at: number };
  /** Signs a challenge with an agent's key, over HTTPS. */
  sign(keyId: string, tenant?: string, client?: Client): Promise<Answer>;
  /** Signs a challenge with an agent's key, without HTTP. */
  answer(keyId: string, tenant?: string): Promise<object>;
  /** Disables a key, without HTTP. */
  disable(keyId: string, tenant?: string): Promise<object>;
  shrink(keyId: string, tenant: string, ceiling: string[]): Promise<object>;
  head(): number;
  recordsAfter(seq: number): Promise<{ statement: string; outcome: string }[]>;
  verifyAudit(): Promise<ChainVerdict>;
  restart(): Promise<TestVault>;
  close(): Promise<void>;
};

/** The kinds of statements that `POST /v1/keys/{id}/sign/{kind}` signs or withholds. */
export const STATEMENTS = [
  ...["delegation", "challenge", "revocation-list", "revocation-push"],
  ...["key-rotation", "receipt", "checkpoint"],
];

let requests = 0;

/** Starts a vault on this home, or on a new home. Its clock starts at `at`, or at the machine's time. */
export async function startVault(home?: VaultHome, at?: Date, log = SILENT): Promise<TestVault> {
  const place = home ?? (await createHome());
  const clock = testClock();
  if (at !== undefined) clock.at = at;
  const serving = await serve(place.config, clock, log);
  const { vault: opened, ...rest } = serving;
  const vault: TestVault = {
    ...rest,
    get vault() {
      return opened();
    },
    home: place,
    clock,
    url: `https://localhost:${serving.port}`,
    get api() {
      return readIdentity(place, "api");
    },
    get admin() {
      return readIdentity(place, "admin");
    },
    get: (path, client = vault.admin) => call(`${vault.url}${path}`, client),
    post: (path, body = {}, client = vault.api, headers = {}) =>
      call(`${vault.url}${path}`, client, { method: "POST", body, headers }),
    parts: () => ({ ...opened(), clock, accepts: () => true }),
    now: () => unixSeconds(clock.now()),
    async makeKey(request, requestKey = `test:${++requests}`) {
      const created = await opened().createKey(API, requestKey, request);
      if (isRefusal(created)) throw new Error(`The key was refused: ${created.refused}`);
      return created;
    },
    makeAgent: (tenant, ceiling = ["data:read"]) =>
      vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling }),
    challenge: (tenant = "acc-1") => ({ tenant, ...bindingAt(vault.now()) }),
    sign: (keyId, tenant, client) =>
      vault.post(`/v1/keys/${keyId}/sign/challenge`, vault.challenge(tenant), client),
    answer: (keyId, tenant = "acc-1") =>
      createChallengeSigning(vault.parts())(API, keyId, { tenant, binding: bindingAt(vault.now()) }),
    disable: (keyId, tenant) => createKeyDisabling(vault.parts())(API, { keyId, tenant }),
    shrink: (keyId, tenant, ceiling) => createCeilingShrinking(opened())(API, { keyId, tenant }, ceiling),
    head: () => opened().journal.head().seq,
    recordsAfter: (seq) =>
      place.sql("select statement, outcome from audit where seq > $1 order by seq", [seq]),
    verifyAudit: () => verifyChain(opened().database, serving.token),
    async restart() {
      await serving.stop();
      return startVault(place, undefined, log);
    },
    async close() {
      await serving.stop();
      await place.remove();
    },
  };
  return vault;
}

/** Starts a vault on a new home with these settings. */
export async function startVaultWith(settings: Record<string, string>, log = SILENT): Promise<TestVault> {
  const home = await createHome();
  home.config = loadConfig({ ...home.environment, ...settings });
  return startVault(home, undefined, log);
}

function bindingAt(now: number): { challenge: string; challenge_at: number } {
  return { challenge: Buffer.alloc(32, 1).toString("base64"), challenge_at: now };
}

/** Returns the error code of a response, or its status if it is not an error. */
export function codeOf({ status, body }: Answer): string | number {
  return body.error?.code ?? status;
}

type Identified = { ca: string; cert: string; key: string };

/** Reads an identity that `keyvault init` created, with the authority that signed it. */
export function readIdentity(home: VaultHome, name: "api" | "admin" | "server"): Identified {
  const read = (file: string): string => readFileSync(join(home.config.tlsDir, file), "utf8");
  return { ca: read("ca.pem"), cert: read(`${name}.pem`), key: read(`${name}.key`) };
}

/** Issues an identity from the home's authority. By default it is valid for an hour before and after now. */
export async function issueIdentity(
  home: VaultHome,
  subject: Subject,
  validity = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3_600_000) },
): Promise<Identified> {
  const read = (file: string): string => readFileSync(join(home.config.tlsDir, file), "utf8");
  const authority: Identity = { certificate: read("ca.pem"), privateKey: read("ca.key") };
  const identity = await issueCertificate(authority, subject, validity);
  return { ca: authority.certificate, cert: identity.certificate, key: identity.privateKey };
}

/** Issues identities of admins with these names. */
export async function issueAdmins(home: VaultHome, ...names: string[]): Promise<Identified[]> {
  return Promise.all(names.map((name) => issueIdentity(home, { kind: "client", role: "admin", name })));
}

/** Returns the names of unfinished tokens in the folder that contains the token's folder. */
export async function unfinishedTokens({ config }: VaultHome): Promise<string[]> {
  const names = await readdir(dirname(config.token.dir)).catch(() => []);
  return names.filter((name) => name.startsWith(`${basename(config.token.dir)}.unfinished`));
}
