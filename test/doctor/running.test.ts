import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/db/database.ts";
import { workerCheck } from "../../src/doctor/running.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { migratedDatabase, type TestDatabase, testDatabase } from "../support/postgres.ts";
import { rowsOf } from "./support.ts";

describe("the check of the worker", () => {
  let migrated: TestDatabase;
  let empty: TestDatabase;
  beforeAll(async () => {
    [migrated, empty] = await Promise.all([migratedDatabase(), testDatabase()]);
  });
  afterAll(() => Promise.all([migrated.drop(), empty.drop()]));

  const look = async ({ url }: TestDatabase) =>
    (await rowsOf([workerCheck()], { DATABASE_URL: url, DEVELOPMENT: "true" })).worker;

  test("fails without a worker, and passes while one renews its lease", async () => {
    const none = { status: "failed", detail: "no worker runs, so events and callbacks wait" };
    expect(await look(migrated)).toMatchObject(none);
    const db = openDatabase({ url: migrated.url, name: "test", onError: () => undefined });
    try {
      const leases = createShardLeases(db, randomUUID());
      await leases.renew();
      expect(await look(migrated)).toMatchObject({ status: "ok", detail: "1 worker runs" });
      await db.raw("update relay_workers set alive_until = now() - interval '1 s'");
      expect(await look(migrated)).toMatchObject(none);
    } finally {
      await db.destroy();
    }
  });

  test("decides nothing on a database without tables", async () => {
    expect((await look(empty))?.status).toBe("skipped");
  });
});
