import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endsConnection, openConnection, SESSION } from "../../src/db/connection.ts";
import { openDatabase, openPool } from "../../src/db/database.ts";
import { isAway } from "../../src/db/errors.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";

/** Defaults of a database that would break or change what our statements return. */
const HOSTILE = {
  DateStyle: "SQL, DMY",
  IntervalStyle: "sql_standard",
  TimeZone: "Asia/Kolkata",
  bytea_output: "escape",
  extra_float_digits: "-10",
  standard_conforming_strings: "off",
  default_transaction_isolation: "serializable",
  default_transaction_deferrable: "on",
  idle_session_timeout: "50000",
  client_min_messages: "error",
  join_collapse_limit: "1",
  statement_timeout: "51000",
  lock_timeout: "52000",
  idle_in_transaction_session_timeout: "53000",
} satisfies Record<keyof typeof SESSION | (string & {}), string>;

let database: TestDatabase;
beforeEach(async () => {
  database = await testDatabase({ role: "hostile" });
});
afterEach(() => database.drop());

type Query = (sql: string) => Promise<Record<string, unknown>[]>;
type Open = (max?: number) => Promise<{ query: Query; end(): Promise<unknown> }>;

const settings = () => ({ url: database.url, name: "test", onError: () => {} });
/** Each way in which the service opens connections. */
const ways: [string, Open][] = [
  [
    "openDatabase",
    async (max = 1) => {
      const db = openDatabase({ ...settings(), max });
      return { query: async (sql) => (await db.raw(sql)).rows, end: () => db.destroy() };
    },
  ],
  [
    "openPool",
    async (max = 1) => {
      const pool = openPool({ ...settings(), max });
      return { query: async (sql) => (await pool.query(sql)).rows, end: () => pool.end() };
    },
  ],
  [
    "openConnection",
    async () => {
      const client = openConnection(settings());
      await client.connect();
      return { query: async (sql) => (await client.query(sql)).rows, end: () => client.end() };
    },
  ],
];
const pools = ways.slice(0, 2);

/** Sets a default of the test's database for new sessions. */
async function setDefault(name: string, value: string): Promise<void> {
  const client = openConnection(settings());
  await client.connect();
  await client.query(
    `do $$ begin execute format('alter database %I set ${name} = %L', current_database(), '${value}'); end $$`,
  );
  await client.end();
}

describe.each(ways)("%s", (_, open) => {
  test("sets every parameter of its session, whatever the database's defaults are", async () => {
    for (const [name, value] of Object.entries(HOSTILE)) await setDefault(name, value);
    const { query, end } = await open();
    const own = { ...SESSION, statement_timeout: "0", lock_timeout: "0", client_encoding: "UTF8" };
    for (const [name, value] of Object.entries(own)) {
      expect([name, Object.values((await query(`show ${name}`))[0] ?? {})]).toEqual([name, [value]]);
    }
    const values = `select timestamptz '2026-02-03T04:05:06.789Z' as at, '\\x00ff'::bytea as bytes,
                    float8 '0.30000000000000004' as float, 9007199254740991::int8 as int,
                    current_setting('transaction_isolation') as isolation`;
    expect(await query(values)).toEqual([
      {
        at: new Date("2026-02-03T04:05:06.789Z"),
        bytes: Buffer.from([0, 255]),
        float: 0.30000000000000004,
        int: Number.MAX_SAFE_INTEGER,
        isolation: "read committed",
      },
    ]);
    expect(await query("show idle_in_transaction_session_timeout")).toEqual([
      { idle_in_transaction_session_timeout: "30s" },
    ]);
    await end();
  });

  test("refuses a read-only session", async () => {
    await setDefault("default_transaction_read_only", "on");
    const refused = open().then(({ query }) => query("select 1"));
    await expect(refused).rejects.toThrow("sessions are read-only");
    await expect(refused).rejects.toSatisfy(isAway);
  });

  test("uses the schema that the URL names", async () => {
    const setUp = await open();
    await setUp.query("create schema own");
    await setUp.end();
    database.url += "?options=-c%20search_path%3Down";
    const { query, end } = await open();
    expect(await query("select current_schema() as schema")).toEqual([{ schema: "own" }]);
    await end();
  });
});

describe.each(pools)("%s", (_, open) => {
  const pid = async (query: Query) => (await query("select pg_backend_pid() as pid"))[0]?.pid;

  test.each([
    ["a change fails because the transaction is read-only", "begin read only; create table t (id int)"],
    ["the session becomes read-only", "set default_transaction_read_only = on"],
  ])("replaces a connection after %s", async (_, sql) => {
    const { query, end } = await open();
    const first = await pid(query);
    await query(sql).catch(() => {});
    await query("rollback").catch(() => {});
    expect(await pid(query)).not.toBe(first);
    await end();
  });
});

test.each([
  ["25006", true],
  ["57P01", true],
  ["08006", true],
  ["XX000", true],
  ["26000", true],
  ["42501", true],
  ["23505", false],
  ["40001", false],
  ["25P02", false],
  ["57014", false],
])("endsConnection: the SQLSTATE %s: %s", (code, ends) => {
  expect(endsConnection(Object.assign(new Error("fault"), { code }))).toBe(ends);
});
