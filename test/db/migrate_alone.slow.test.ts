import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Migration, migrate, migrations } from "../../src/db/migrate.ts";
import { migratedDatabase } from "../support/postgres.ts";

/** Seconds that the migration takes. A pool closes an idle connection earlier. */
const LONG_SECONDS = 14;

test("a migration run blocks other runs until it ends", async () => {
  const database = await migratedDatabase();
  try {
    const long: Migration = { name: "9001_next", sql: `select pg_sleep(${LONG_SECONDS})` };
    const run = migrate(database.url, { migrations: [...migrations, long] });
    await sleep((LONG_SECONDS - 2) * 1_000);
    await expect(migrate(database.url, { lockMs: 100 })).rejects.toThrow(/Another `deputize migrate`/);
    expect(await run).toEqual({ applied: ["9001_next"] });
  } finally {
    await database.drop();
  }
});
