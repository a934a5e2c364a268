import { afterAll, beforeAll, expect, test } from "vitest";
import { databaseChecks } from "../../src/doctor/database.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { runPart } from "../support/run_parts.ts";
import { type PgBouncer, startPgBouncer } from "../support/surroundings/pgbouncer.ts";
import { rowsOf } from "./support.ts";

let database: TestDatabase;
let pooler: PgBouncer;
beforeAll(async () => {
  database = await migratedDatabase();
  pooler = await startPgBouncer(runPart("postgresUrl"), { mode: "transaction" });
});
afterAll(async () => {
  await pooler?.remove();
  await database?.drop();
});

const look = (change: Record<string, string> = {}) =>
  rowsOf(databaseChecks(), {
    DATABASE_URL: pooler.through(database.url),
    DEVELOPMENT: "true",
    ...change,
  });

test("a pooler in transaction mode fails without a direct URL, and all checks pass with one", async () => {
  const without = await look();
  expect(without["database pooler"]).toMatchObject({
    status: "failed",
    detail: "The database is behind a pooler that loses LISTEN and session locks",
    action: expect.stringMatching(/^Set DATABASE_DIRECT_URL to /),
  });
  const rows = await look({ DATABASE_DIRECT_URL: database.url });
  expect(Object.values(rows).filter(({ status }) => status !== "ok")).toEqual([]);
});
