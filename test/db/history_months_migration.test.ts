import { randomBytes, randomUUID } from "node:crypto";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { migrate, migrations } from "../../src/db/migrate.ts";
import { historyMonths } from "../../src/db/migrations/from_0026.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";

const before = migrations.slice(0, migrations.indexOf(historyMonths));
const upTo = migrations.slice(0, migrations.indexOf(historyMonths) + 1);
/** A database in the state before the migration. Each test uses a copy of this database. */
let former: TestDatabase;
let database: TestDatabase;
let client: Client;
const [rich, poor] = [randomUUID(), randomUUID()];

const connected = async () => {
  const made = new Client({ connectionString: database.url });
  await made.connect();
  return made;
};

type Posting = { account?: string; at?: Date; id?: Buffer; kind?: string; amount?: number };

/** Adds a posting with the statement that the versions before and after the migration use. */
function post({ account = rich, at = new Date(), id = randomBytes(32), kind, amount = 2_000 }: Posting) {
  const [debit, credit] = kind === undefined ? ["credit", "revenue"] : ["grants", "credit"];
  return client.query(
    `insert into ledger_postings
       (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
     values ($1, $2, $3, $4, $5, $6, $7) returning tableoid::regclass::text as partition`,
    [account, at, id, kind ?? "verification", debit, credit, amount],
  );
}

async function grant(reference: string, { account = rich, at = new Date() } = {}) {
  const id = randomBytes(32);
  await client.query("begin");
  await client.query("insert into credit_grants values ($1, $2, $3, $4, 'paid', 5000000)", [
    reference,
    account,
    at,
    id,
  ]);
  await post({ account, at, id, kind: "grant", amount: 5_000_000 });
  await client.query("commit");
}

const rowsOf = async (sql: string) => (await client.query(sql)).rows;
const ALL = "select * from ledger_postings order by account_id, posted_at, posting_id";
const SUMS = "select account_id, book, sum(amount_micro_usd) from ledger_entries group by 1, 2 order by 1, 2";

beforeAll(async () => {
  former = await testDatabase();
  await migrate(former.url, { migrations: before });
  const owner = new Client({ connectionString: former.url });
  await owner.connect();
  for (const account of [rich, poor]) {
    await owner.query(
      "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
      [account, `${account}@example.test`],
    );
  }
  await owner.end();
});
afterAll(() => former.drop());

beforeEach(async () => {
  database = await testDatabase({ template: new URL(former.url).pathname.slice(1) });
  client = await connected();
});
afterEach(async () => {
  await client.end();
  await database.drop();
});

const month = (ahead: number) => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead));
};

test("the migration keeps every row, key, sum and grant of the postings when it creates partitions", async () => {
  await post({ account: poor, at: new Date("2020-02-29T23:59:59.999Z") });
  const twice = { at: new Date("2026-01-31T23:59:59.999Z"), id: randomBytes(32) };
  await post(twice);
  for (let n = 0; n < 20; n += 1) await post({ amount: n + 1 });
  await grant("inv-1");
  const [rows, sums] = [await rowsOf(ALL), await rowsOf(SUMS)];
  await migrate(database.url, { migrations: upTo });
  expect(await rowsOf(ALL)).toEqual(rows);
  expect(await rowsOf(SUMS)).toEqual(sums);
  expect(rows).toHaveLength(23);
  await expect(post(twice)).rejects.toMatchObject({ code: "23505" });
  await expect(post({ kind: "gift" })).rejects.toMatchObject({ code: "23514" });
  await expect(post({ amount: 0 })).rejects.toMatchObject({ code: "23514" });
  await grant("inv-2");
  await expect(client.query("delete from ledger_postings where kind = 'grant'")).rejects.toMatchObject({
    code: "23503",
  });
});

test("after the migration, rows before the end of next month stay in the former table, and later rows go to a new partition", async () => {
  await migrate(database.url, { migrations: upTo });
  const partitionAt = async (at: Date) => (await post({ at })).rows[0].partition;
  expect(await partitionAt(new Date("2020-01-01T00:00:00.000Z"))).toBe("ledger_postings_before");
  expect(await partitionAt(new Date(month(2).getTime() - 1))).toBe("ledger_postings_before");
  expect(await partitionAt(month(2))).toBe("ledger_postings_other");
  await grant("inv-later", { at: month(2) });
});

test("after the migration, statements that the former version prepared before it still work", async () => {
  const named = (at: Date) => ({
    name: "post",
    text: `insert into ledger_postings
             (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
           values ($1, $2, $3, 'verification', 'credit', 'revenue', 2000)`,
    values: [rich, at, randomBytes(32)],
  });
  for (let n = 0; n < 7; n += 1) await client.query(named(new Date()));
  await migrate(database.url, { migrations: upTo });
  await client.query(named(new Date()));
  await client.query(named(month(3)));
  expect(await rowsOf("select count(*)::int from ledger_postings")).toEqual([{ count: 9 }]);
});

test("no posting of a decision is lost during the migration", async () => {
  const other = await connected();
  let posted = 0;
  let going = true;
  const posting = (async () => {
    while (going) {
      await other.query(
        "insert into ledger_postings values ($1, now(), $2, 'verification', 'credit', 'revenue', 2000)",
        [poor, randomBytes(32)],
      );
      posted += 1;
    }
  })();
  await until("some were posted", () => posted > 20);
  await migrate(database.url, { migrations: upTo });
  const then = posted;
  await until("more were posted", () => posted > then + 20);
  going = false;
  await posting;
  await other.end();
  expect(await rowsOf("select count(*)::int from ledger_postings")).toEqual([{ count: posted }]);
});

describe("the check constraint that proves a partition's bound", () => {
  const name = (at: Date) => `ledger_postings_before_${at.toISOString().slice(0, 7).replace("-", "_")}`;
  const checks = () =>
    rowsOf(`select conname::text as name from pg_constraint where contype = 'c' and conname ~ 'before_\\d'`);

  /** One message about constraints during an attach means that the server need not read the partition. */
  async function saidOf(sql: string): Promise<string[]> {
    const said: string[] = [];
    client.on("notice", ({ message = "" }) => said.push(message));
    await client.query(`begin; set local client_min_messages = debug1; ${sql}; rollback`);
    return said.filter((line) => line.includes("partition constraint"));
  }

  const stopped = { name: "0028_stopped", sql: "select 1 / 0", bounds: historyMonths.bounds };

  test("exists before the migration begins, so that the migration reads no row under its lock", async () => {
    await expect(migrate(database.url, { migrations: [...before, stopped] })).rejects.toThrow(/division/);
    expect(await checks()).toEqual([{ name: name(month(2)) }]);
    expect(await saidOf(historyMonths.sql)).toContainEqual(
      expect.stringMatching(/"ledger_postings_before" is implied by existing constraints/),
    );
    await migrate(database.url, { migrations: upTo });
    expect(await checks()).toEqual([]);
  });

  test("replaces the check constraint of a killed run if the month of the old constraint is near", async () => {
    const near = name(month(1));
    await client.query(
      `alter table ledger_postings add constraint ${near} check (posted_at < '${month(1).toISOString()}') not valid`,
    );
    await expect(migrate(database.url, { migrations: [...before, stopped] })).rejects.toThrow(/division/);
    expect(await checks()).toEqual([{ name: name(month(2)) }]);
  });

  test("affects only the speed of the migration, not its result", async () => {
    await post({});
    expect(await saidOf(historyMonths.sql)).toEqual([]);
    await client.query(historyMonths.sql);
    expect((await post({})).rows[0].partition).toBe("ledger_postings_before");
  });
});
