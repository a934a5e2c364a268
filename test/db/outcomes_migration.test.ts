import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { migrate } from "../../src/db/migrate.ts";
import { outcomes } from "../../src/db/migrations/0005_to_0011.ts";
import { migrationNames, sqlBefore } from "../support/migrations.ts";
import { testDatabase } from "../support/postgres.ts";

test("outcomes that were reported before they had a table of their own are in it afterwards, and nothing else is", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    for (const sql of sqlBefore(outcomes.name)) await client.query(sql);
    const insert = `insert into invocations (account_id, connection_id, invocation_id, operation_hash, event_id,
        decided_at, outcome, outcome_detail, outcome_occurred_at, outcome_recorded_at)
      values ($1, $1, $2, '\\x00', $3, '2026-05-01T10:00:00Z', $4, $5, $6, $7)`;
    const [account, told, untold] = [randomUUID(), randomUUID(), randomUUID()];
    const times = ["2026-05-01T10:00:01Z", "2026-05-01T10:00:02Z"];
    await client.query(insert, [account, "told", told, "failed", "why", ...times]);
    await client.query(insert, [account, "untold", untold, null, null, null, null]);
    await client.query(outcomes.sql);
    expect((await client.query("select * from outcomes")).rows).toEqual([
      {
        account_id: account,
        decided_at: new Date("2026-05-01T10:00:00Z"),
        event_id: told,
        outcome: "failed",
        detail: "why",
        occurred_at: new Date("2026-05-01T10:00:01Z"),
        recorded_at: new Date("2026-05-01T10:00:02Z"),
      },
    ]);
    expect((await client.query("select from invocations")).rowCount).toBe(2);
  } finally {
    await client.end();
    await database.drop();
  }
  // The very names that `migrate` knows: none was left out above.
  const fresh = await testDatabase();
  const { applied } = await migrate(fresh.url);
  await fresh.drop();
  expect(applied).toEqual(migrationNames());
});
