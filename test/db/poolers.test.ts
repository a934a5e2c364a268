import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { StartError } from "../../src/config.ts";
import { type Connection, openConnection, ReadOnlyServer } from "../../src/db/connection.ts";
import { openDatabase, openPool } from "../../src/db/database.ts";
import { migrate } from "../../src/db/migrate.ts";
import { checkPoolers } from "../../src/db/pooler/check_poolers.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { runPart } from "../support/run_parts.ts";
import {
  keepsPreparedStatements,
  type PgBouncer,
  startPgBouncer,
} from "../support/surroundings/pgbouncer.ts";

const LOSES_SESSIONS = /loses LISTEN and session locks: set DATABASE_DIRECT_URL/;
const LIMITS = { lockMs: 1_001, statementMs: 60_002, idleTransactionMs: 1_003 };
const SHOWN = {
  lock: "1001ms",
  statement: "60002ms",
  idle: "1003ms",
  isolation: "read committed",
  zone: "UTC",
  dates: "ISO, YMD",
  joins: "4",
};
const SHOW = `select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,
  current_setting('idle_in_transaction_session_timeout') as idle,
  current_setting('transaction_isolation') as isolation, current_setting('TimeZone') as zone,
  current_setting('DateStyle') as dates, current_setting('join_collapse_limit') as joins`;

let database: TestDatabase;
const poolers = {} as Record<"session" | "transaction" | "ignoring" | "roundRobin" | "statement", PgBouncer>;
beforeAll(async () => {
  database = await testDatabase({ role: "pooled" });
  const start = async (name: keyof typeof poolers, options: Parameters<typeof startPgBouncer>[1]) => {
    poolers[name] = await startPgBouncer(runPart("postgresUrl"), options);
  };
  await Promise.all([
    start("session", { mode: "session" }),
    start("transaction", { mode: "transaction" }),
    start("ignoring", { mode: "transaction", ignoresParameters: true }),
    start("roundRobin", {
      mode: "transaction",
      settings: { server_round_robin: "1", default_pool_size: "2" },
    }),
    start("statement", { mode: "statement" }),
  ]);
});
afterAll(async () => {
  await Promise.all(Object.values(poolers).map((pooler) => pooler.remove()));
  await database.drop();
});

const through = (name: keyof typeof poolers) => poolers[name].through(database.url);
const settings = (name: keyof typeof poolers) => ({
  url: through(name),
  name: "test",
  ...LIMITS,
  onError: () => {},
});

describe("a connection through a pooler that keeps a stale session", () => {
  let own: TestDatabase;
  let pooler: PgBouncer;
  beforeAll(async () => {
    own = await testDatabase({ role: "stale" });
    const settings = { default_pool_size: "1" };
    pooler = await startPgBouncer(runPart("postgresUrl"), { mode: "transaction", settings });
  });
  afterAll(async () => {
    await pooler.remove();
    await own.drop();
  });

  /** Connects, and returns the number of the server's process. */
  async function connect(isFormer = () => false): Promise<unknown> {
    const url = pooler.through(own.url);
    const connection = openConnection({ ...settings("transaction"), url });
    connection.isFormer = isFormer;
    await connection.connect();
    const { rows } = await connection.query("select pg_backend_pid() as pid");
    await connection.end();
    return rows[0]?.pid;
  }

  /** Waits until the pooler gives out another session than the one with this number. */
  const untilReplaced = (stale: unknown) =>
    until("the pooler has another session", async () => {
      const pid = await connect().catch(() => stale);
      return pid !== stale;
    });

  test("ends it if it is read-only", async () => {
    const stale = await connect();
    const client = new Client({ connectionString: pooler.through(own.url) });
    await client.connect();
    await client.query("set default_transaction_read_only = on");
    await client.end();
    await expect(connect()).rejects.toThrow(ReadOnlyServer);
    await untilReplaced(stale);
  });

  test("ends it if it leads to a former primary", async () => {
    const stale = await connect();
    await expect(connect(() => true)).rejects.toThrow("another server is the primary");
    await untilReplaced(stale);
  });
});

describe.each(["session", "transaction", "ignoring", "roundRobin"] as const)("a pooler (%s)", (kind) => {
  let connection: Connection;
  beforeEach(async () => {
    connection = openConnection(settings(kind));
    await connection.connect();
  });
  afterEach(() => connection.end());

  test.each([
    ["a statement", () => connection.query(SHOW)],
    ["a statement with values", () => connection.query(`${SHOW}, $1::text as zone`, ["UTC"])],
    ["a statement with a name", () => connection.query({ name: "shown", text: SHOW })],
  ])("gives %s its own limits and formats", async (_, query) => {
    expect((await query()).rows).toEqual([SHOWN]);
    expect((await query()).rows).toEqual([SHOWN]);
  });

  test("gives a transaction its own limits and formats, and each of its statements one result", async () => {
    for (const begin of ["begin", "start transaction;"]) {
      expect(await connection.query(begin)).toMatchObject({ rows: [] });
      expect((await connection.query({ name: "shown", text: SHOW })).rows).toEqual([SHOWN]);
      expect(await connection.query("commit")).toMatchObject({ command: "COMMIT" });
    }
  });

  test("keeps the isolation level that a transaction chooses", async () => {
    await connection.query("begin isolation level repeatable read read only");
    expect((await connection.query(SHOW)).rows).toEqual([{ ...SHOWN, isolation: "repeatable read" }]);
    await connection.query("rollback");
  });

  test("gives several statements in one text their own results", async () => {
    const results = (await connection.query(`select 1 as n; ${SHOW}`)) as unknown as { rows: unknown[] }[];
    expect(results.map(({ rows }) => rows)).toEqual([[{ n: 1 }], [SHOWN]]);
  });

  test("cancels a statement after its limit, and then runs the next one", async () => {
    const quick = openConnection({ ...settings(kind), statementMs: 50 });
    await quick.connect();
    for (const values of [[], ["x"]]) {
      const text = values.length === 0 ? "select pg_sleep(60)" : "select pg_sleep(60), $1::text";
      await expect(quick.query(text, values)).rejects.toMatchObject({ code: "57014" });
    }
    expect((await quick.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
    await quick.end();
  });

  test("stops waiting for a lock after its limit, also outside of a transaction", async () => {
    await connection.query("create table if not exists locked (id int)");
    await connection.query("begin");
    await connection.query("lock table locked");
    const quick = openConnection({ ...settings(kind), lockMs: 20 });
    await quick.connect();
    const waiting = quick.query("insert into locked values ($1)", [1]);
    await expect(waiting).rejects.toMatchObject({ code: "55P03" });
    await connection.query("rollback");
    await quick.end();
  });

  test("leaves nothing of one client's settings to the next client", async () => {
    await connection.query("select 1");
    await connection.end();
    const other = openConnection({ url: through(kind), name: "other", lockMs: 5 });
    await other.connect();
    expect((await other.query("show lock_timeout")).rows).toEqual([{ lock_timeout: "5ms" }]);
    await other.end();
  });

  test("serves openDatabase and openPool, with transactions and savepoints", async () => {
    const [db, pool] = [openDatabase(settings(kind)), openPool(settings(kind))];
    const rows = await db.transaction(async (tx) => {
      await tx.transaction((inner) => inner.raw("select 1/0")).catch(() => {});
      return (await tx.raw(SHOW)).rows;
    });
    expect([rows, (await db.raw(SHOW)).rows, (await pool.query(SHOW)).rows]).toEqual([
      [SHOWN],
      [SHOWN],
      [SHOWN],
    ]);
    await Promise.all([db.destroy(), pool.end()]);
  });

  test("prepares a statement with a name only if the pooler keeps it, whatever server connection runs it", async () => {
    const clients = await Promise.all(
      [0, 1, 2].map(async () => {
        const client = openConnection(settings(kind));
        await client.connect();
        return client;
      }),
    );
    const text = `select $1::int as n, (select count(*) > 0 from pg_prepared_statements
      where statement like '%this text%') as is_prepared`;
    const keeps = (await keepsPreparedStatements()) && kind !== "session";
    for (let n = 0; n < 12; n += 1) {
      const client = clients[n % clients.length] as Connection;
      await expect(client.query({ name: "named", text, values: ["no number"] })).rejects.toMatchObject({
        code: "22P02",
      });
      const { rows } = await client.query({ name: "named", text, values: [n] });
      expect(rows).toEqual([{ n, is_prepared: keeps }]);
    }
    await Promise.all(clients.map((client) => client.end()));
  });

  test("does not block the connection after a statement that fails", async () => {
    await expect(connection.query("select 1/0")).rejects.toMatchObject({ code: "22012" });
    await expect(connection.query("select 1/$1::int", [0])).rejects.toMatchObject({ code: "22012" });
    await expect(connection.query("no statement")).rejects.toMatchObject({ code: "42601" });
    await connection.query("rollback");
    expect((await connection.query(SHOW)).rows).toEqual([SHOWN]);
  });
});

describe("at start", () => {
  const check = (url: string, directUrl?: string) =>
    checkPoolers({ DATABASE_URL: url, DATABASE_DIRECT_URL: directUrl });

  test("a server and a pooler in session mode need no direct URL", async () => {
    await check(database.url);
    await check(through("session"));
    await check(database.url, database.url);
  });

  test.each(["transaction", "ignoring", "roundRobin"] as const)(
    "a pooler in transaction mode (%s) needs a direct URL that keeps sessions",
    async (kind) => {
      await expect(check(through(kind))).rejects.toThrow(LOSES_SESSIONS);
      await expect(check(through(kind))).rejects.toBeInstanceOf(StartError);
      await expect(check(database.url, through(kind))).rejects.toThrow(LOSES_SESSIONS);
      await check(through(kind), database.url);
      await check(through(kind), through("session"));
    },
  );

  test("a pooler in transaction mode is recognized while other clients use it", async () => {
    const pool = openPool({ ...settings("transaction"), max: 8 });
    let isOver = false;
    const others = Array.from({ length: 8 }, async () => {
      while (!isOver) await pool.query("select pg_sleep(0.002)");
    });
    await expect(check(through("transaction"))).rejects.toThrow(LOSES_SESSIONS);
    isOver = true;
    await Promise.all(others);
    await pool.end();
  });

  test("a pooler in statement mode is refused", async () => {
    await expect(check(through("statement"), database.url)).rejects.toThrow(
      /use transaction or session mode/,
    );
    await expect(check(through("statement"), database.url)).rejects.toBeInstanceOf(StartError);
  });

  test("two URLs of different databases are refused", async () => {
    const other = await testDatabase();
    await expect(check(through("transaction"), other.url)).rejects.toThrow(/lead to different databases/);
    await expect(check(database.url, other.url)).rejects.toThrow(StartError);
    await other.drop();
  });
});

test("a migration needs a URL that keeps sessions", async () => {
  const options = { migrations: [{ name: "0001_one", sql: "create table one (id int)" }] };
  await expect(migrate(through("transaction"), options)).rejects.toThrow(LOSES_SESSIONS);
  expect(await migrate(through("session"), options)).toEqual({ applied: ["0001_one"] });
});
