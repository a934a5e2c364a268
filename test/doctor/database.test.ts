import { Client, escapeIdentifier } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrate } from "../../src/db/migrate.ts";
import { databaseChecks } from "../../src/doctor/database.ts";
import { API_CONNECTIONS } from "../../src/input/database_url.ts";
import { migratedDatabase, type TestDatabase, testDatabase } from "../support/postgres.ts";
import { runPart } from "../support/run_parts.ts";
import { rowsOf } from "./support.ts";

let healthy: TestDatabase;
let owned: TestDatabase;

beforeAll(async () => {
  [healthy, owned] = await Promise.all([migratedDatabase(), testDatabase({ role: "owner", guest: "guest" })]);
});
afterAll(async () => {
  await healthy.drop();
  await owned.drop();
});

const look = (url: string, now?: () => Date) =>
  rowsOf(databaseChecks(), { DATABASE_URL: url, DEVELOPMENT: "true" }, { ...(now && { now }) });

async function asSuperuser(sql: string): Promise<void> {
  const client = new Client({ connectionString: runPart("postgresUrl") });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

test("all checks pass on a migrated database", async () => {
  const rows = await look(healthy.url);
  expect(
    Object.values(rows)
      .filter(({ status }) => status !== "ok")
      .map(({ name, detail }) => [name, detail]),
  ).toEqual([["direct database", "DATABASE_DIRECT_URL is not set"]]);
  expect(Object.keys(rows)).toEqual([
    "database",
    "direct database",
    "database pooler",
    "database writes",
    "database clock",
    "database rights",
    "database connections",
    "database schema",
  ]);
});

test("a server that may lose commits fails outside of development", async () => {
  const { database } = await rowsOf(databaseChecks(), { DATABASE_URL: healthy.url });
  expect(database).toMatchObject({ status: "failed", action: "Set fsync to on." });
});

describe("the check of the connection names", () => {
  const changed = (parts: Partial<Pick<URL, "pathname" | "port" | "hostname" | "search">>) =>
    Object.assign(new URL(owned.url), parts).href;

  test("a missing database, and the other checks are skipped", async () => {
    const rows = await look(changed({ pathname: "/nowhere" }));
    expect(rows.database).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("does not exist"),
    });
    expect(rows["database clock"]).toMatchObject({
      status: "skipped",
      detail: "the database does not answer",
    });
  });

  test("a closed port", async () => {
    const { database } = await look(changed({ port: "1" }));
    expect(database).toMatchObject({ status: "failed", detail: expect.stringContaining("nothing listens") });
  });

  test("a host that does not exist", async () => {
    const { database } = await look(changed({ hostname: "nowhere.invalid" }));
    expect(database?.status).toBe("failed");
    expect(database?.detail).toMatch(/has no address|no name server answered/);
  });

  test("a server without TLS, if the URL requires TLS", async () => {
    const { database } = await look(changed({ search: "?sslmode=require" }));
    expect(database).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("does not support SSL"),
    });
  });
});

test("a wrong password fails without the password in the output", async () => {
  const url = Object.assign(new URL(owned.url), { password: "wr0ng" });
  const { database } = await look(url.href);
  expect(database).toMatchObject({
    status: "failed",
    detail: expect.stringContaining("the server refuses the user or the password"),
    action: "Correct the user and the password in DATABASE_URL.",
  });
  expect(JSON.stringify(database)).not.toContain("wr0ng");
});

test("a wrong user fails without its password in the output", async () => {
  const url = new URL(owned.url);
  url.username = "nobody_of_that_name";
  url.password = "p4ssword";
  const { database } = await look(url.href);
  expect(database?.status).toBe("failed");
  expect(database?.detail).toContain("the server refuses the user");
  expect(JSON.stringify(database)).not.toContain("p4ssword");
});

test("a direct URL of another database, or of a closed port, fails", async () => {
  const direct = (DATABASE_DIRECT_URL: string) =>
    rowsOf(databaseChecks(), { DATABASE_URL: healthy.url, DATABASE_DIRECT_URL, DEVELOPMENT: "true" });
  const same = await direct(healthy.url);
  expect([same["direct database"]?.status, same["database pooler"]?.status]).toEqual(["ok", "ok"]);
  const other = await direct(owned.url);
  expect(other["database pooler"]).toMatchObject({
    status: "failed",
    detail: "DATABASE_URL and DATABASE_DIRECT_URL lead to different databases",
  });
  const closed = await direct(Object.assign(new URL(healthy.url), { port: "1" }).href);
  expect(closed["direct database"]).toMatchObject({
    status: "failed",
    detail: expect.stringContaining("nothing listens"),
  });
  expect(closed.database?.status).toBe("ok");
});

test("sessions that are read-only fail", async () => {
  const name = escapeIdentifier(new URL(healthy.url).pathname.slice(1));
  await asSuperuser(`alter database ${name} set default_transaction_read_only = on`);
  try {
    const rows = await look(healthy.url);
    expect(rows["database writes"]).toMatchObject({
      status: "failed",
      detail: "default_transaction_read_only is on",
    });
  } finally {
    await asSuperuser(`alter database ${name} reset default_transaction_read_only`);
  }
});

test.each([
  [3 * 3600, "ahead of"],
  [2, "ahead of"],
  [0.7, "ahead of"],
  [-0.7, "behind"],
  [-40 * 86_400, "behind"],
])("a clock that differs by %d s fails", async (seconds, direction) => {
  const rows = await look(healthy.url, () => new Date(Date.now() + seconds * 1000));
  expect(rows["database clock"]?.detail).toContain(direction);
  expect(rows["database clock"]?.status).toBe("failed");
});

test("a clock that differs by 0.2 s passes", async () => {
  const rows = await look(healthy.url, () => new Date(Date.now() + 200));
  expect(rows["database clock"]?.status).toBe("ok");
});

test("a database without the schema of this version fails until it is migrated", async () => {
  const before = await look(owned.url);
  expect(before["database schema"]).toMatchObject({ status: "failed", action: "Run deputize migrate." });
  await migrate(owned.url);
  const after = await look(owned.url);
  expect(after["database schema"]).toMatchObject({ status: "ok" });
  expect(after["database rights"]).toMatchObject({ status: "ok" });
});

test("a user who does not own the tables fails", async () => {
  await migrate(owned.url);
  const rows = await look(owned.guestUrl);
  expect(rows["database rights"]).toMatchObject({
    status: "failed",
    detail: expect.stringMatching(/may not create tables|may not read and write/),
  });
});

test("a limit on connections below what one process opens fails", async () => {
  const name = escapeIdentifier(new URL(owned.url).pathname.slice(1));
  const limit = (count: number) => asSuperuser(`alter database ${name} connection limit ${count}`);
  await limit(10);
  try {
    const rows = await look(owned.url);
    expect(rows["database connections"]).toMatchObject({
      status: "failed",
      detail: expect.stringMatching(
        new RegExp(`^10 connections are allowed, .* one process may hold ${API_CONNECTIONS}$`),
      ),
    });
  } finally {
    await limit(-1);
  }
});
