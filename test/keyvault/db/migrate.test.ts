import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate, migrationNames } from "../../../keyvault/db/migrate.ts";
import { migrateToLevel } from "../backup/earlier_support.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

const LONGER_THAN_A_QUERY_MAY_TAKE_MS = 6_000;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

test("a migration may take longer than an ordinary query, as an index on a long audit does", async () => {
  const level = migrationNames().indexOf("0007_resident_records");
  await migrateToLevel(home, level);
  const obstacle = new pg.Client({ connectionString: home.config.migrationDatabaseUrl });
  await obstacle.connect();
  await obstacle.query("BEGIN; LOCK TABLE audit IN ROW EXCLUSIVE MODE");
  const migrating = migrate(home.config, SILENT);
  migrating.catch(() => {});
  await sleep(LONGER_THAN_A_QUERY_MAY_TAKE_MS);
  await obstacle.query("COMMIT");
  await obstacle.end();
  expect(await migrating).toEqual(migrationNames().slice(level));
}, 60_000);
