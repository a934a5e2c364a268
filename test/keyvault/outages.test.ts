import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runPart } from "../support/run_parts.ts";
import { startVault, type TestVault } from "./fixture.ts";

let vault: TestVault;
let agent: string;

beforeAll(async () => {
  vault = await startVault();
  agent = (await vault.makeAgent("acc-1")).key_id;
});
afterAll(() => vault.close());

const answer = () => vault.sign(agent);
const status = async () => (await answer()).status;
const probe = async (path: string) => (await fetch(`http://127.0.0.1:${vault.healthPort}${path}`)).status;

/** Runs `during` while only a superuser may connect to the vault's database. */
async function withoutDatabase(during: () => Promise<unknown>): Promise<void> {
  const name = new URL(vault.home.config.databaseUrl).pathname.slice(1);
  const admin = new pg.Client({ connectionString: runPart("postgresUrl") });
  await admin.connect();
  await admin.query(`alter database ${name} ALLOW_CONNECTIONS false`);
  await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [name]);
  try {
    await during();
  } finally {
    await admin.query(`alter database ${name} ALLOW_CONNECTIONS true`);
    await admin.end();
  }
}

test("the vault signs nothing without its database, and signs again when the database is back", async () => {
  expect(await status()).toBe(200);
  const before = vault.head();
  await withoutDatabase(async () => {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect(await answer()).toMatchObject({
        status: 503,
        body: { error: { code: "audit_unavailable", status: 503 } },
      });
    }
    expect(await vault.get(`/v1/keys/${"0".repeat(32)}?tenant=acc-1`, vault.api)).toMatchObject({
      status: 503,
      body: { error: { code: "unavailable" } },
    });
    await expect.poll(() => probe("/readyz"), { timeout: 5_000 }).toBe(503);
    expect(await probe("/livez")).toBe(200);
  });
  expect(vault.head()).toBe(before);
  await expect.poll(status, { timeout: 10_000 }).toBe(200);
  await expect.poll(() => probe("/readyz"), { timeout: 5_000 }).toBe(200);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the vault signs nothing without its token process, and signs again when the process is back", async () => {
  const pid = vault.vault.token.pid()!;
  process.kill(pid, "SIGSTOP");
  const flight = [answer(), answer(), answer()];
  await sleep(1_500);
  process.kill(pid, "SIGKILL");
  for (const result of await Promise.all(flight)) {
    expect(result).toMatchObject({
      status: 503,
      body: { error: { code: "token_unavailable", status: 503 } },
    });
  }
  await expect.poll(status, { timeout: 10_000 }).toBe(200);
  expect(vault.vault.token.pid()).not.toBe(pid);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the vault signs nothing while its database is full or read-only, and stores no key without its record", async () => {
  await vault.home.sql("alter table audit add constraint full_disk check (false) not VALID");
  const body = { tenant: "acc-new", purpose: "agent", label: "new", ceiling: [] };
  const create = () => vault.post("/v1/keys", body, vault.api, { "idempotency-key": "while-full" });
  for (const call of [answer, create]) {
    expect(await call()).toMatchObject({ status: 503, body: { error: { code: "audit_unavailable" } } });
  }
  expect(await vault.home.sql("select from keys where tenant = 'acc-new'")).toEqual([]);
  expect(await vault.home.sql("select from tenants where tenant = 'acc-new'")).toEqual([]);
  await vault.home.sql("alter table audit drop constraint full_disk");
  for (const call of [answer, create]) expect((await call()).status).toBe(200);
});

test("probes return only a status without a body", async () => {
  expect(await probe("/readyz")).toBe(200);
  expect(await probe("/v1/keys")).toBe(404);
  expect(await (await fetch(`http://127.0.0.1:${vault.healthPort}/readyz`)).text()).toBe("");
});
