import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, openDatabase } from "../../../keyvault/db/database.ts";
import { createLog } from "../../../keyvault/log.ts";
import { type TestDatabase, testDatabase } from "../../support/postgres.ts";
import { until } from "../../support/process.ts";
import { runPart } from "../../support/run_parts.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase({ role: "vault" });
});
afterAll(() => database.drop());

/** Sets a default of the test's database for new sessions. */
async function setDefault(name: string, value: string): Promise<void> {
  const client = createClient(database.url);
  await client.connect();
  await client.query(
    `do $$ begin execute format('alter database %I set ${name} = %L', current_database(), '${value}'); end $$`,
  );
  await client.end();
}

const HOSTILE = {
  DateStyle: ["SQL, DMY", "ISO, YMD"],
  IntervalStyle: ["sql_standard", "postgres"],
  TimeZone: ["Asia/Kolkata", "UTC"],
  bytea_output: ["escape", "hex"],
  extra_float_digits: ["-10", "1"],
  standard_conforming_strings: ["off", "on"],
  default_transaction_isolation: ["serializable", "read committed"],
  default_transaction_deferrable: ["on", "off"],
  statement_timeout: ["51", "0"],
  lock_timeout: ["52", "0"],
  idle_in_transaction_session_timeout: ["53", "30s"],
  idle_session_timeout: ["54", "0"],
} as const;

test("each connection of the vault sets its session, whatever the database's defaults are", async () => {
  for (const [name, [hostile]] of Object.entries(HOSTILE)) await setDefault(name, hostile);
  const pool = openDatabase(database.url, createLog("silent"), 1);
  const client = createClient(database.url);
  await client.connect();
  for (const [name, [, own]] of Object.entries(HOSTILE)) {
    const sql = `select current_setting('${name}') as value`;
    expect([name, (await pool.raw(sql)).rows[0].value]).toEqual([name, own]);
    expect([name, (await client.query(sql)).rows[0]?.value]).toEqual([name, own]);
  }
  await client.end();
  await pool.destroy();
});

test("the vault's pool replaces a connection whose transaction or session is read-only", async () => {
  const pool = openDatabase(database.url, createLog("silent"), 1);
  const pid = async (): Promise<number> => (await pool.raw("select pg_backend_pid() as pid")).rows[0].pid;
  for (const sql of ["begin read only; create table t (id int)", "set default_transaction_read_only = on"]) {
    const first = await pid();
    await pool.raw(sql).catch(() => {});
    await pool.raw("rollback").catch(() => {});
    expect(await pid()).not.toBe(first);
  }
  await pool.destroy();
});

test("the vault refuses a database that accepts no changes", async () => {
  await setDefault("default_transaction_read_only", "on");
  const pool = openDatabase(database.url, createLog("silent"), 1);
  await expect(pool.raw("select 1")).rejects.toMatchObject({ code: "25006" });
  await expect(createClient(database.url).connect()).rejects.toMatchObject({ code: "25006" });
  await pool.destroy();
});

test("the vault closes a connection whose server does not say when it started", async () => {
  const own = await testDatabase({ role: "vault" });
  const superuserUrl = new URL(runPart("postgresUrl"));
  superuserUrl.pathname = new URL(own.url).pathname;
  const observer = createClient(superuserUrl.href);
  await observer.connect();
  await observer.query("revoke execute on function pg_postmaster_start_time() from public");
  await expect(createClient(own.url, { name: "refused" }).connect()).rejects.toMatchObject({ code: "42501" });
  const open = "select 1 from pg_stat_activity where application_name = 'refused'";
  await until("the connection has ended", async () => (await observer.query(open)).rowCount === 0);
  await observer.end();
  await own.drop();
});
