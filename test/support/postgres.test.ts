import { Client } from "pg";
import { expect, test } from "vitest";
import { migratedDatabase, type TestDatabase, testDatabase } from "./postgres.ts";

async function query(database: TestDatabase, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test("gives every call an empty database of its own", async () => {
  const [one, other] = await Promise.all([testDatabase(), testDatabase()]);
  await query(one, "create table t ()");
  expect(await query(other, "select from pg_class where relname = 't'")).toEqual([]);
  await Promise.all([one.drop(), other.drop()]);
  await expect(query(one, "select 1")).rejects.toMatchObject({ code: "3D000" });
});

test("gives a database to a role that owns it and is no superuser", async () => {
  const database = await testDatabase({ role: "api" });
  await query(database, "create table t ()");
  expect(
    await query(database, "select current_user as me, rolsuper from pg_roles where rolname = current_user"),
  ).toEqual([{ me: expect.stringMatching(/^api_[0-9a-f]{12}$/), rolsuper: false }]);
  await database.drop();
});

test("drops a database that is still connected to", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  const ended = new Promise((resolve) => client.on("error", resolve));
  await client.connect();
  await database.drop();
  expect(await ended).toMatchObject({ code: "57P01" });
});

test("copies the migrated database, once migrated, for every call", async () => {
  const databases = await Promise.all([migratedDatabase(), migratedDatabase(), migratedDatabase()]);
  const tables = await Promise.all(
    databases.map((database) =>
      query(database, "select relname from pg_class where relnamespace = 'public'::regnamespace order by 1"),
    ),
  );
  expect(tables[0]?.length).toBeGreaterThan(0);
  expect(tables[1]).toEqual(tables[0]);
  expect(tables[2]).toEqual(tables[0]);
  await Promise.all(databases.map((database) => database.drop()));
});
