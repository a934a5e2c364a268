import { readFileSync } from "node:fs";
import { mkdir, rename, rmdir, writeFile } from "node:fs/promises";
import { request, Server } from "node:https";
import { join } from "node:path";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { readHeads } from "../../keyvault/audit/head_file.ts";
import { createRecoveryKey } from "../../keyvault/backup/encrypted_stream.ts";
import { unixSeconds } from "../../keyvault/clock.ts";
import { loadConfig } from "../../keyvault/config.ts";
import { createKeyDestruction, createTenantDestruction } from "../../keyvault/lifecycle/destroy.ts";
import { generateKeys, keyId } from "../../src/protocol/keys/hybrid.ts";
import { heldRows } from "../support/held_rows.ts";
import { isRunning, until } from "../support/process.ts";
import { ADMIN, ADMINS, createHome, startVault, type TestVault, type VaultHome } from "./fixture.ts";
import { call } from "./http/caller_support.ts";
import { delegationRequest, subject } from "./sign/delegation_request.ts";

/* One vault runs as `keyvault serve` starts it, but its intervals wait for the tests, which run in order. */

const HEADS_LOG_SECONDS = 7;
const MINUTE_MS = 60_000;
const TEN_MINUTES_MS = 600_000;
const DAY_SECONDS = 86_400;
/** Interval of database pools, which clear it with a function that a test cannot replace. */
const REAPER_MS = 1_000;
const CALL = { caller: ADMIN, statement: "call", outcome: "granted" } as const;
const HEALTH_HOST = "127.0.0.3";

let home: VaultHome;
let vault: TestVault;
let pool: pg.Pool;
let server: Server;
let headsFile: string;
/** Earlier sessions created the test's database. */
let createdAt: Date;
/** Milliseconds of the intervals that run, without those of database pools. */
const intervals = new Map<unknown, number | undefined>();
const lines: { event: string; why?: string; [name: string]: unknown }[] = [];
const log = pino({ level: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  countIntervals();
  home = await createHome();
  headsFile = join(home.dir, "heads");
  home.config = loadConfig({
    ...home.environment,
    KEYVAULT_AUDIT_HEADS_FILE: headsFile,
    KEYVAULT_AUDIT_HEADS_LOG_SECONDS: String(HEADS_LOG_SECONDS),
    KEYVAULT_HEALTH_HOST: HEALTH_HOST,
    KEYVAULT_CEILING: "data:read",
    KEYVAULT_EXTERNAL_SUBJECTS: "1",
    KEYVAULT_KEYS_PER_TENANT: "0",
    KEYVAULT_MAX_CONNECTIONS: "0",
    KEYVAULT_TOKEN_ENVIRONMENT: "HSM_CONF",
    HSM_CONF: "/etc/hsm",
    HSM_OTHER: "/etc/other",
  });
  await writeFile(home.config.recoveryKeyFile, createRecoveryKey().publicKey);
  pool = new pg.Pool({ connectionString: home.config.migrationDatabaseUrl, max: 2 });
  const [row] = await home.sql<{ now: Date }>("select clock_timestamp() as now");
  createdAt = row?.now ?? new Date();
  const listen = vi.spyOn(Server.prototype, "listen");
  vault = await startVault(home, undefined, log);
  server = listen.mock.contexts[0] as Server;
  listen.mockRestore();
});
afterAll(async () => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  await pool.end();
  await home.remove();
});

const { hold, untilBlocked } = heldRows(() => pool);
/** Makes {@link intervals} count the intervals that start and end from now on. */
function countIntervals(): void {
  const { setInterval: start, clearInterval: clear } = globalThis;
  vi.stubGlobal("setInterval", (run: () => void, ms?: number) => {
    const interval = start(run, ms);
    if (ms !== REAPER_MS) intervals.set(interval, ms);
    return interval;
  });
  vi.stubGlobal("clearInterval", (interval: NodeJS.Timeout) => {
    intervals.delete(interval);
    clear(interval);
  });
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const linesOf = (event: string) => lines.filter((line) => line.event === event);
const logged = (event: string) => until(event, () => linesOf(event).length > 0);
const heads = async () => (await readHeads(headsFile)).heads.map(({ seq }) => seq);
const metrics = async () => (await fetch(`http://${HEALTH_HOST}:${vault.healthPort}/metrics`)).text();
const sessions = () =>
  home.sql<{ role: string; name: string }>(
    `select distinct usename as role, application_name as name from pg_stat_activity
     where datname = current_database() and application_name like 'keyvault%' and backend_start >= $1
     order by name`,
    [createdAt],
  );

test("the running vault uses only its own database role", async () => {
  await vault.makeAgent("acc-1");
  expect((await vault.get("/v1/status")).status).toBe(200);
  const role = new URL(home.config.databaseUrl).username;
  expect(await sessions()).toEqual(
    ["keyvault", "keyvault-audit", "keyvault-primary"].map((name) => ({ role, name })),
  );
});

test("the running vault listens for calls and for probes at the configured addresses only", async () => {
  expect((await vault.get("/livez")).status).toBe(200);
  expect(await metrics()).toContain("keyvault_not_ready");
  await expect(call(`https://${HEALTH_HOST}:${vault.port}/livez`, vault.admin)).rejects.toMatchObject({
    code: "ECONNREFUSED",
  });
  await expect(fetch(`http://127.0.0.1:${vault.healthPort}/livez`)).rejects.toThrow();
});

test.skipIf(process.platform !== "linux")("the token's process gets only the configured variables", () => {
  const variables = readFileSync(`/proc/${vault.token.pid()}/environ`, "utf8").split("\0").filter(Boolean);
  expect(variables.sort()).toEqual(["HSM_CONF=/etc/hsm", expect.stringMatching(/^SOFTHSM2_CONF=/)]);
});

test("the running vault forgets its cached keys when it reconnects to its database", async () => {
  const changed = vi.spyOn(vault.vault.store, "changed");
  await home.sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keyvault-audit' and datname = current_database()",
  );
  await logged("audit_connection_lost");
  expect(changed).not.toHaveBeenCalled();
  await vault.vault.journal.record(CALL);
  expect(changed.mock.calls).toEqual([[]]);
  changed.mockRestore();
});

test("the running vault limits a handshake to 10 s, a request to 15 s and an idle connection to 75 s", () => {
  const limit = Object.getOwnPropertySymbols(server).find(
    ({ description }) => description === "handshake-timeout",
  );
  expect((server as unknown as Record<symbol, unknown>)[limit as symbol]).toBe(10_000);
  expect(server).toMatchObject({ requestTimeout: 15_000, keepAliveTimeout: 75_000 });
});

test("the running vault obeys KEYVAULT_CEILING and KEYVAULT_EXTERNAL_SUBJECTS", async () => {
  const root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  const { publicKey } = await generateKeys();
  const delegate = async (scope: string[]) => {
    const external = subject({ key_id: keyId(publicKey), public_key: publicKey });
    const body = delegationRequest(root, await vault.makeAgent("acc-1"), vault.now(), {
      certificate: { ...external, scope },
      approval: { ceiling: ["data:read", "files:write"], external_subject: true },
    });
    return vault.post(`/v1/keys/${root.key_id}/sign/delegation`, body);
  };
  expect((await delegate(["data:read"])).status).toBe(200);
  const message = "The vault's ceiling does not grant files:write";
  expect((await delegate(["files:write"])).body).toMatchObject({ error: { message } });
});

test("the running vault logs the audit's head at the configured interval, even if it has not changed", async () => {
  const steady = () => linesOf("audit_head").filter(({ why }) => why === "steady").length;
  await pass(HEADS_LOG_SECONDS * 1_000 - 1);
  expect(steady()).toBe(0);
  await pass(1);
  expect(steady()).toBe(1);
  await pass(2 * HEADS_LOG_SECONDS * 1_000);
  expect(steady()).toBe(3);
});

test("the running vault appends each new head to the configured file every minute, and tries again after a fault", async () => {
  const written = (count: number) =>
    until(`${count} heads`, async () => (await heads().catch(() => [])).length === count);
  await pass(MINUTE_MS);
  await written(1);
  await pass(2 * MINUTE_MS);
  const first = vault.head();
  await rename(headsFile, `${headsFile}.kept`);
  await mkdir(headsFile);
  await vault.makeAgent("acc-1");
  await pass(MINUTE_MS);
  await logged("audit_head_not_exported");
  await rmdir(headsFile);
  await rename(`${headsFile}.kept`, headsFile);
  await pass(MINUTE_MS);
  await written(2);
  expect(await heads()).toEqual([first, vault.head()]);
});

test("the running vault erases due keys and tenants every ten minutes, and tries again after a fault", async () => {
  const agents = [await vault.makeAgent("acc-2"), await vault.makeAgent("acc-3")];
  for (const admin of ADMINS) {
    await createKeyDestruction(vault.parts())(admin, agents[0]?.key_id ?? "", 7);
    await createTenantDestruction(vault.parts())(admin, "acc-3", 7);
  }
  vault.clock.move(7 * DAY_SECONDS);
  await home.sql("alter table tenants rename to away");
  await pass(TEN_MINUTES_MS);
  await logged("erasing_failed");
  await home.sql("alter table away rename to tenants");
  await pass(TEN_MINUTES_MS);
  await logged("erased");
  expect(linesOf("erased")).toMatchObject([{ keys: 1, tenants: 1 }]);
});

test("the status counts tenants, and keys by their state", async () => {
  for (let disabled = 0; disabled < 2; disabled += 1) {
    await vault.disable((await vault.makeAgent("acc-4")).key_id, "acc-4");
  }
  for (let destroying = 0; destroying < 3; destroying += 1) {
    const { key_id } = await vault.makeAgent("acc-4");
    for (const admin of ADMINS) await createKeyDestruction(vault.parts())(admin, key_id, 7);
  }
  const [active] = await home.sql("select count(*)::int as active from keys where state = 'active'");
  const states = { disabled: 2, destroying: 3, destroyed: 1 };
  const { body } = await vault.get("/v1/status");
  expect(body).toMatchObject({
    keys: { tenants: 5, ...active, ...states },
    audit: { records: vault.head() },
  });
});

/** Requests a backup as an admin and reads all of it. */
function readBackup(): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const options = { ...vault.admin, method: "POST", headers, agent: false };
    request(`${vault.url}/v1/backup`, options, (response) => {
      response.resume().on("end", resolve).on("error", reject);
    }).end("{}");
  });
}

test("the running vault counts its logins to the token", async () => {
  const logins = async () =>
    /^keyvault_token_logins_total\{outcome="accepted"\} (\d+)$/m.exec(await metrics())?.[1];
  const before = Number(await logins());
  expect(before).toBeGreaterThan(0);
  process.kill(vault.token.pid()!, "SIGKILL");
  await until("another login", async () => Number(await logins()) === before + 1);
});

test("the running vault exports the time of the last complete backup, also after a restart", async () => {
  const lastBackup = async () =>
    Number(/^keyvault_last_backup_timestamp_seconds (\d+)$/m.exec(await metrics())?.[1]);
  expect(await lastBackup()).toBe(0);
  const made = unixSeconds(vault.clock.now());
  await readBackup();
  await until("the backup's time", async () => (await lastBackup()) === made);
  const { journal } = vault.vault;
  const record = async (outcome: "granted" | "failed", fill: number, detail = {}) => {
    vault.clock.move(DAY_SECONDS);
    const digest = Buffer.alloc(32, fill);
    await journal.record({ caller: ADMIN, statement: "backup", outcome, digest, detail });
  };
  await record("granted", 1);
  await record("granted", 2, { step: "signed" });
  await record("failed", 2, { step: "signed" });
  await Promise.all(Array.from({ length: 1_000 }, () => journal.record(CALL)));
  const { seq } = journal.head();
  vault = await vault.restart();
  await until("the backup's time", async () => (await lastBackup()) === made);
  const [saved] = await home.sql("select min(seq)::int as seq, count(*)::int as parts from audit_register");
  expect(saved, "a snapshot of the register, because the audit has grown").toEqual({ seq, parts: 257 });
});

test("the running vault exports whether it can sign, and when its certificates expire", async () => {
  const text = await metrics();
  expect(text.match(/^keyvault_not_ready\{reason="\w+"\} 0$/gm)).toHaveLength(5);
  for (const name of ["server", "authority"]) {
    expect(text).toMatch(
      new RegExp(`^keyvault_certificate_expiry_timestamp_seconds\\{certificate="${name}"\\} [1-9]`, "m"),
    );
  }
});

test("a stopping vault finishes the batch that it rewraps, notes its last head, and closes everything", async () => {
  await home.sql(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at)
     select 'many-' || n, 'kek-1', decode(repeat('00', 60), 'hex'), now() from generate_series(1, 300) as n`,
  );
  expect((await vault.post("/v1/kek/rotate", {}, vault.admin)).status).toBe(200);
  const row = await hold("update tenants set created_at = created_at where tenant = 'acc-1'", []);
  expect((await vault.post("/v1/kek/rewrap", {}, vault.admin)).status).toBe(200);
  await untilBlocked();
  const pid = vault.token.pid() ?? 0;
  expect(intervals.size).toBeGreaterThan(0);
  const stopping = vault.stop();
  await row.commit();
  await stopping;
  const batches = await home.sql("select from audit where statement = 'kek_rewrap' and detail ? 'tenants'");
  expect(batches).toHaveLength(1);
  expect(linesOf("audit_head").at(-1)).toMatchObject({ why: "stop", seq: vault.head() });
  expect((await heads()).at(-1)).toBe(vault.head());
  expect([...intervals.values()]).toEqual([]);
  expect(isRunning(pid)).toBe(false);
  await until("no session of the vault", async () => (await sessions()).length === 0);
  await expect(metrics()).rejects.toThrow();
  await expect(vault.get("/livez")).rejects.toMatchObject({ code: "ECONNREFUSED" });
});
