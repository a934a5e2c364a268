import type { Pool } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { openPool } from "../../../src/db/database.ts";
import { monthOf, partitionName, readPartitions } from "../../../src/db/months.ts";
import { maintainPartitions } from "../../../src/proofs/decide/partitions.ts";
import { migratedDatabase, type TestDatabase } from "../../support/postgres.ts";

let database: TestDatabase;
let pool: Pool;
const now = new Date("2026-12-31T23:30:00.000Z");

beforeAll(async () => {
  database = await migratedDatabase();
  pool = openPool({ url: database.url, name: "test", onError: () => {} });
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

async function partitionsOf(parent: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1",
    [parent],
  );
  return rows.map((row) => row.name);
}

async function spend(expiresAt: Date): Promise<string> {
  const { rows } = await pool.query<{ name: string }>(
    `insert into spent_challenges (connection_id, expires_at, challenge)
     values (gen_random_uuid(), $1, '\\x01') returning tableoid::regclass::text as name`,
    [expiresAt],
  );
  return rows[0]?.name ?? "";
}

test("maintainPartitions creates partitions for this and the next hours and months, also across the new year", async () => {
  await maintainPartitions(pool, now);
  expect(await partitionsOf("spent_challenges")).toEqual([
    "spent_challenges_2026_12_31_23",
    "spent_challenges_2027_01_01_00",
    "spent_challenges_2027_01_01_01",
    "spent_challenges_2027_01_01_02",
    "spent_challenges_other",
  ]);
  expect(await partitionsOf("audit_events")).toEqual([
    "audit_events_2026_12",
    "audit_events_2027_01",
    "audit_events_other",
  ]);
  expect(await partitionsOf("outcomes")).toEqual(["outcomes_2026_12", "outcomes_2027_01", "outcomes_other"]);
  expect(await spend(now)).toBe("spent_challenges_2026_12_31_23");
});

test("maintainPartitions creates monthly postings partitions that start where the former table ends, without overlap", async () => {
  const end = monthOf(new Date(), 2);
  await maintainPartitions(pool, addSeconds(end.from, -1));
  const [before, ...others] = await readPartitions(pool, "ledger_postings");
  expect(before).toEqual({ name: "ledger_postings_before", from: -Infinity, to: end.from });
  expect(others).toEqual([
    { name: partitionName("ledger_postings", end), from: end.from, to: end.to },
    { name: "ledger_postings_other", from: null, to: null },
  ]);
});

test("maintainPartitions may run repeatedly, and in several processes concurrently", async () => {
  const later = new Date("2040-05-31T23:30:00.000Z");
  await Promise.all(Array.from({ length: 4 }, () => maintainPartitions(pool, later)));
  await maintainPartitions(pool, later);
  const created = (await partitionsOf("spent_challenges")).filter((name) => /_2040_/.test(name));
  expect(created).toHaveLength(4);
});

test("maintainPartitions drops an hour's challenges two hours after that hour, not earlier, and only if the clocks agree", async () => {
  const [before, after] = [new Date("2027-01-01T01:59:59.000Z"), new Date("2027-01-01T02:00:00.000Z")];
  await maintainPartitions(pool, before, before);
  await maintainPartitions(pool, after);
  expect(await partitionsOf("spent_challenges")).toContain("spent_challenges_2026_12_31_23");
  await maintainPartitions(pool, after, after);
  expect(await partitionsOf("spent_challenges")).not.toContain("spent_challenges_2026_12_31_23");
});

test("a spent challenge in the default partition is kept until two hours after it expires", async () => {
  const end = new Date("2027-05-01T10:30:00.000Z");
  expect(await spend(end)).toBe("spent_challenges_other");
  const spentAfter = async (seconds: number) => {
    await maintainPartitions(pool, addSeconds(end, seconds), addSeconds(end, seconds));
    return (await pool.query("select from spent_challenges where expires_at = $1", [end])).rowCount;
  };
  expect(await spentAfter(-300)).toBe(1);
  expect(await spentAfter(2 * 3600)).toBe(1);
  await maintainPartitions(pool, addSeconds(end, 3 * 3600));
  expect(await spentAfter(2 * 3600 + 1)).toBe(0);
});

test("rows in the default partition stay usable, and are deleted when they are too old", async () => {
  const late = new Date("2027-06-01T10:30:00.000Z");
  expect(await spend(late)).toBe("spent_challenges_other");
  await maintainPartitions(pool, late, late);
  expect(await spend(addSeconds(late, 60))).toBe("spent_challenges_other");
  await maintainPartitions(pool, addSeconds(late, 3 * 3600), addSeconds(late, 3 * 3600));
  const { rowCount } = await pool.query("select from spent_challenges_other");
  expect(rowCount).toBe(0);
});
