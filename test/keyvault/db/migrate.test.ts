import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { migrate, migrationNames, withSchemaLock } from "../../../keyvault/db/migrate.ts";
import { migrateToLevel } from "../backup/earlier_support.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

const LONGER_THAN_A_QUERY_MAY_TAKE_MS = 6_000;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

const waitingFor = (locks: string) => () => home.sql(`select from pg_locks where ${locks} and not granted`);

test("a migration may take longer than an ordinary query, for example for an index on a long audit", async () => {
  const level = migrationNames().indexOf("0007_resident_records");
  await migrateToLevel(home, level);
  const obstacle = new pg.Client({ connectionString: home.config.migrationDatabaseUrl });
  await obstacle.connect();
  await obstacle.query("begin; lock table audit in row exclusive mode");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const migrating = migrate(home.config, SILENT);
    migrating.catch(() => {});
    await expect.poll(waitingFor("relation = 'audit'::regclass"), { timeout: 20_000 }).toHaveLength(1);
    vi.advanceTimersByTime(LONGER_THAN_A_QUERY_MAY_TAKE_MS);
    await obstacle.query("commit");
    expect(await migrating).toEqual(migrationNames().slice(level));
  } finally {
    vi.useRealTimers();
    await obstacle.end();
  }
}, 60_000);

test("migrate waits while a process of any version changes the schema", async () => {
  const waiting = waitingFor("locktype = 'advisory' and objid = 7233102");
  const migrating = await withSchemaLock(home.config, SILENT, async () => {
    const migrated = migrate(home.config, SILENT);
    const waits = expect.poll(waiting, { timeout: 20_000 }).toHaveLength(1);
    expect(await Promise.race([migrated, waits.then(() => "waits")])).toBe("waits");
    return { migrated };
  });
  expect(await migrating.migrated).toEqual([]);
});

test("withSchemaLock completes even if the connection that holds its lock is lost", async () => {
  const ended = await withSchemaLock(home.config, SILENT, async (database) => {
    const { rows } = await database.raw<{ rows: [{ pid: number }] }>(
      "select pid from pg_locks where locktype = 'advisory' and objid = 7233102 and granted",
    );
    await database.raw("select pg_terminate_backend(?)", [rows[0].pid]);
    await sleep(100);
    return "done";
  });
  expect(ended).toBe("done");
});
