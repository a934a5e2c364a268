import { readdirSync } from "node:fs";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { StartError } from "../../src/config.ts";
import { openDatabase } from "../../src/db/database.ts";
import {
  type Migration,
  MigrationPutOff,
  migrate,
  migrations,
  readSchemaState,
} from "../../src/db/migrate.ts";
import { migratedDatabase, type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { startTcpProxy } from "../support/surroundings/tcp_proxy.ts";

let database: TestDatabase;

beforeEach(async () => {
  database = await migratedDatabase();
});

afterEach(() => database.drop());

async function query(sql: string) {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}

const next = (n: number): Migration => ({ name: `900${n}_next`, sql: `create table next_${n} (id int)` });

async function stateOf({ url } = database) {
  const db = openDatabase({ url, name: "test", max: 1, onError: () => {} });
  try {
    return await readSchemaState(db);
  } finally {
    await db.destroy();
  }
}

test("migrate applies every migration once and in order, even in several concurrent runs", async () => {
  const names = migrations.map(({ name }) => name);
  const empty = await testDatabase();
  onTestFinished(() => empty.drop());
  expect(await stateOf(empty)).toMatchObject({ kind: "behind", missing: names });
  const runs = await Promise.all(Array.from({ length: 4 }, () => migrate(empty.url)));
  expect(runs.flatMap(({ applied }) => applied)).toEqual(names);
  expect(await stateOf(empty)).toEqual({ kind: "usable" });
  expect((await migrate(empty.url)).applied).toEqual([]);
});

test("migrate continues after a killed run that left the library's lock behind", async () => {
  await query("update schema_migrations_lock set is_locked = 1");
  expect((await migrate(database.url)).applied).toEqual([]);
});

test("readSchemaState reports a database without the last migration as behind", async () => {
  const last = migrations.at(-1)?.name;
  await query(`delete from schema_migrations where name = '${last}'`);
  expect(await stateOf()).toEqual({ kind: "behind", missing: [last] });
});

test("migrate accepts one migration of the next release and does not change anything", async () => {
  await migrate(database.url, { migrations: [...migrations, next(1)] });
  expect(await stateOf()).toEqual({ kind: "usable" });
  expect(await migrate(database.url)).toEqual({ applied: [] });
  expect((await query("select * from next_1")).rows).toEqual([]);
});

test("migrate refuses a database with two migrations of later releases, and changes nothing", async () => {
  await migrate(database.url, { migrations: [...migrations, next(1), next(2)] });
  expect(await stateOf()).toEqual({ kind: "strange", unknown: ["9001_next", "9002_next"] });
  const refused = migrate(database.url, { migrations: [...migrations] });
  await expect(refused).rejects.toThrow(StartError);
  await expect(refused).rejects.toThrow(/does not know: 9001_next, 9002_next.*run the release/);
});

test("migrate refuses a database with an unknown migration between known ones", async () => {
  await query("insert into schema_migrations (name, batch, migration_time) values ('0024_other', 9, now())");
  expect(await stateOf()).toEqual({ kind: "strange", unknown: ["0024_other"] });
  await expect(migrate(database.url)).rejects.toThrow(/0024_other/);
});

test("migrate keeps the migrations before a failed one, and continues with that migration after a fix", async () => {
  const broken = { name: "9002_next", sql: "create table half (id int); select no_such_column" };
  await expect(migrate(database.url, { migrations: [...migrations, next(1), broken] })).rejects.toThrow(
    /no_such_column/,
  );
  expect((await query("select to_regclass('half') as half, to_regclass('next_1') as next")).rows).toEqual([
    { half: null, next: "next_1" },
  ]);
  const { applied } = await migrate(database.url, { migrations: [...migrations, next(1), next(2)] });
  expect(applied).toEqual(["9002_next"]);
});

describe("a migration of tables in use", () => {
  const changing: Migration = {
    name: "9001_next",
    sql: "alter table accounts add column next_thing text",
  };
  let holder: Client;

  beforeEach(async () => {
    holder = new Client({ connectionString: database.url });
    await holder.connect();
    await holder.query("begin; lock table accounts in access share mode");
  });

  afterEach(() => holder.end());

  const migrateNext = (lockMs: number, said: string[]) =>
    migrate(database.url, {
      migrations: [...migrations, changing],
      lockMs,
      log: { info: (line: string) => said.push(line) } as never,
    });

  test("does not block other sessions while it waits for a table's lock, and continues when the lock is free", async () => {
    const said: string[] = [];
    const run = migrateNext(60_000, said);
    await until("it has met the lock", () => said.length > 0);
    // A caller that arrives meanwhile finishes within the API's statement timeout.
    for (let n = 0; n < 5; n += 1) {
      await query("set statement_timeout = 2000; select from accounts limit 1");
    }
    expect(said).toEqual(["waiting: a table that a migration changes is locked by others"]);
    await holder.query("commit");
    expect(await run).toEqual({ applied: ["9001_next"] });
  });

  test("gives up after its waiting time with a message, and changes nothing", async () => {
    const refused = migrateNext(300, []);
    await expect(refused).rejects.toThrow(MigrationPutOff);
    await expect(refused).rejects.toThrow(
      /locked by others for 0\.3 s.*end it, then run the migration again/,
    );
    await holder.query("commit");
    expect((await migrateNext(0, [])).applied).toEqual(["9001_next"]);
  });

  describe("an index on a table in use", () => {
    const indexed: Migration = {
      name: "9001_next",
      sql: "select 1",
      indexes: [{ name: "accounts_next", table: "accounts", on: "(lower(email))" }],
    };
    const build = (lockMs: number, said: string[] = []) =>
      migrate(database.url, {
        migrations: [...migrations, indexed],
        lockMs,
        log: { info: (line: string) => said.push(line) } as never,
      });
    const isWhole = async () =>
      (
        await query(
          "select indisvalid as whole from pg_index where indexrelid = to_regclass('accounts_next')",
        )
      ).rows;

    test("does not block writers while it is built", async () => {
      await holder.query("commit; begin; lock table accounts in row exclusive mode");
      const run = build(60_000);
      await until("it has begun", async () => (await isWhole()).length > 0);
      await query(`set statement_timeout = 2000;
        insert into accounts (account_id, email, onboarding_step, created_at)
        values (gen_random_uuid(), 'a@example.test', 'profile', now())`);
      expect(await isWhole()).toEqual([{ whole: false }]);
      await holder.query("commit");
      expect(await run).toEqual({ applied: ["9001_next"] });
      expect(await isWhole()).toEqual([{ whole: true }]);
    });

    test("gets rebuilt before the migration is applied if an earlier run left the index incomplete", async () => {
      await holder.query("commit; begin; lock table accounts in row exclusive mode");
      await expect(build(300)).rejects.toThrow(/locked by others for 0\.3 s/);
      expect(await isWhole()).toEqual([{ whole: false }]);
      expect(await stateOf()).toEqual({ kind: "usable" });
      expect((await query("select from schema_migrations where name = '9001_next'")).rows).toEqual([]);
      await holder.query("commit");
      expect(await build(60_000)).toEqual({ applied: ["9001_next"] });
      expect(await isWhole()).toEqual([{ whole: true }]);
    });

    test("becomes valid on a partitioned table after an interrupted run, and new partitions have the index too", async () => {
      await holder.query("commit");
      const indexes = [{ name: "audit_events_next", table: "audit_events", on: "(account_id, event_type)" }];
      const run = () =>
        migrate(database.url, { migrations: [...migrations, { ...next(1), indexes }], lockMs: 300 });
      const month = (n: number) =>
        query(`create table audit_events_20200${n} partition of audit_events
               for values from ('2020-0${n}-01') to ('2020-0${n + 1}-01')`);
      await month(1);
      await month(2);
      await holder.query("begin; lock table audit_events_202002 in row exclusive mode");
      await expect(run()).rejects.toThrow(MigrationPutOff);
      await holder.query("commit");
      await month(3);
      expect((await run()).applied).toEqual(["9001_next"]);
      await month(4);
      const { rows } = await query(`
        select bool_and(x.indisvalid) as whole, count(*)::int as parts from pg_inherits i
        join pg_index x on x.indexrelid in (i.inhrelid, i.inhparent)
        where i.inhparent = 'audit_events_next'::regclass and x.indexrelid <> i.inhparent`);
      const partitions = await query("select from pg_inherits where inhparent = 'audit_events'::regclass");
      expect(rows).toEqual([{ whole: true, parts: partitions.rows.length }]);
      const parent = "select indisvalid from pg_index where indexrelid = 'audit_events_next'::regclass";
      expect((await query(parent)).rows).toEqual([{ indisvalid: true }]);
    });

    test("can be requested by several concurrent runs, one of which completes the index", async () => {
      await holder.query("commit");
      const runs = await Promise.all([build(60_000), build(60_000), build(60_000)]);
      expect(runs.flatMap(({ applied }) => applied)).toEqual(["9001_next"]);
      expect(await isWhole()).toEqual([{ whole: true }]);
    });
  });

  test("gives up if a different run holds the lock for too long", async () => {
    await holder.query("select pg_advisory_lock(hashtext('deputize.migrate'))");
    await expect(migrateNext(200, [])).rejects.toThrow(/Another `deputize migrate`.*more than 0\.2 s/);
  });
});

describe("the wait for a database that is not running yet", () => {
  test("appears in the log once, and ends when the database runs", async () => {
    const proxy = await startTcpProxy(database.url);
    proxy.cut();
    const said: string[] = [];
    const log = { info: (line: string) => said.push(line) } as never;
    try {
      const run = migrate(proxy.url, { migrations: [...migrations, next(1)], databaseMs: 60_000, log });
      await until("it waits", () => said.length > 0);
      proxy.mend();
      expect((await run).applied).toEqual(["9001_next"]);
      expect(said).toHaveLength(1);
      expect(said[0]).toMatch(/^waiting: the database does not answer yet: /);
    } finally {
      await proxy.stop();
    }
  });

  test("ends after the waiting time, with the reason in one sentence", async () => {
    const refused = migrate("postgres://deputize:word-of-the-test@127.0.0.1:1/none", { databaseMs: 100 });
    await expect(refused).rejects.toThrow(MigrationPutOff);
    await expect(refused).rejects.toThrow(
      "The database did not answer in 0.1 s: connect ECONNREFUSED 127.0.0.1:1",
    );
  });

  test("does not begin if the database refuses the user", async () => {
    const url = new URL(database.url);
    url.username = "nobody_of_the_test";
    url.pathname = "/no_such_database";
    await expect(migrate(url.href, { databaseMs: 60_000 })).rejects.toThrow(/nobody_of_the_test|no_such/);
  });
});

test("the list of migrations contains every migration that the files declare, in the order of their numbers", async () => {
  const folder = new URL("../../src/db/migrations/", import.meta.url);
  const modules = await Promise.all(readdirSync(folder).map((file) => import(new URL(file, folder).href)));
  const exported = modules.flatMap((module) =>
    Object.values<Migration | Migration[] | string>(module).flat(),
  );
  // Texts are parts of a migration that another file declares.
  const declared = exported.filter((each) => typeof each !== "string");
  const names = new Set(declared.map(({ name }) => name));
  expect(migrations.map(({ name }) => name)).toEqual([...names].toSorted());
});
