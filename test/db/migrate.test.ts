import { Client } from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { migrate } from "../../src/db/migrate.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";

let database: TestDatabase;

beforeEach(async () => {
  database = await testDatabase();
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

test("applies every migration once, in order, and nothing the second time", async () => {
  const { applied } = await migrate(database.url);
  expect(applied[0]).toBe("0001_accounts");
  expect(applied).toEqual(applied.toSorted());
  expect((await migrate(database.url)).applied).toEqual([]);
});

test("may be run by several processes concurrently: one of them applies each migration", async () => {
  const runs = await Promise.all(Array.from({ length: 4 }, () => migrate(database.url)));
  const applied = runs.flatMap((run) => run.applied);
  expect(new Set(applied).size).toBe(applied.length);
  expect(applied.length).toBeGreaterThan(0);
});

test("goes on after a run that was killed and left the library's lock behind", async () => {
  await migrate(database.url);
  await query("update schema_migrations_lock set is_locked = 1");
  expect((await migrate(database.url)).applied).toEqual([]);
});

test("refuses a database that a newer version has migrated", async () => {
  await migrate(database.url);
  await query("insert into schema_migrations (name, batch, migration_time) values ('9999_future', 9, now())");
  await expect(migrate(database.url)).rejects.toThrow(/9999_future/);
});
