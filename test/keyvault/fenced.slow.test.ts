import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { makeSmallestChange } from "../../keyvault/db/primary.ts";
import { initialize } from "../../keyvault/init.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { SILENT, startVault, type TestVault } from "./fixture.ts";

const stops: (() => Promise<unknown>)[] = [];
let vault: TestVault;
let agent: string;
let superuser: pg.Client;

/** A vault on a Postgres of its own, because a fence applies to the whole server. */
beforeAll(async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-fenced-"));
  stops.push(() => rm(dir, { recursive: true, force: true }));
  const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
  stops.push(() => postgres.stop());
  superuser = new pg.Client({ connectionString: postgres.superuserUrl("postgres") });
  await superuser.connect();
  stops.push(() => superuser.end());
  await superuser.query("create role keyvault login password 'vault'");
  await superuser.query("create database keyvault owner keyvault");
  const url = new URL(postgres.superuserUrl("keyvault"));
  Object.assign(url, { username: "keyvault", password: "vault" });
  const environment = {
    KEYVAULT_DATA_DIR: join(dir, "data"),
    KEYVAULT_DATABASE_URL: url.href,
    KEYVAULT_PORT: "0",
    KEYVAULT_HEALTH_PORT: "0",
    KEYVAULT_LOG_LEVEL: "silent",
  };
  const config = loadConfig(environment);
  await initialize(config, { now: () => new Date() }, SILENT);
  const home = { dir, environment, config, sql: async () => [], remove: async () => {} };
  vault = await startVault(home);
  stops.push(() => vault.close());
  agent = (await vault.makeAgent("acc-1")).key_id;
});
afterAll(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const probe = async (path: string) => (await fetch(`http://127.0.0.1:${vault.healthPort}${path}`)).status;
const sign = async () => (await vault.sign(agent)).status;

async function fence(state: "on" | "off"): Promise<void> {
  await superuser.query("set default_transaction_read_only = off");
  await superuser.query(`alter system set default_transaction_read_only = ${state}`);
  await superuser.query("select pg_reload_conf()");
}

test("a vault whose database is a fenced former primary is not ready and signs nothing, until the fence is gone", async () => {
  expect([await probe("/readyz"), await sign()]).toEqual([200, 200]);
  await fence("on");
  await expect.poll(() => probe("/readyz"), { timeout: 20_000 }).toBe(503);
  expect([await sign(), await probe("/readyz"), await probe("/livez")]).toEqual([503, 503, 200]);
  await fence("off");
  await expect.poll(() => probe("/readyz"), { timeout: 20_000 }).toBe(200);
  expect(await sign()).toBe(200);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the smallest change fails in a read-only transaction, which Postgres itself would permit", async () => {
  await makeSmallestChange(superuser);
  await superuser.query("begin transaction read only");
  await expect(makeSmallestChange(superuser)).rejects.toThrow("The database accepts no changes");
  await superuser.query("rollback");
});
