import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { credits } from "../../src/db/migrations/0012_to_0019.ts";
import { sqlBefore } from "../support/migrations.ts";
import { testDatabase } from "../support/postgres.ts";

test("accounts that are there are low at 20 % of their alpha credits, and grants can be posted to them", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    for (const sql of sqlBefore(credits.name)) await client.query(sql);
    const [rich, poor] = [randomUUID(), randomUUID()];
    for (const id of [rich, poor]) {
      await client.query(
        "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
        [id, `${id}@example.test`],
      );
      await client.query("insert into balances values ($1, 4000)", [id]);
    }
    const post = `insert into ledger_postings values ($1, now(), '\\x00', $2, 'grants', 'credit', 10000009)`;
    await client.query(post, [rich, "alpha_credit"]);
    await expect(client.query(post, [poor, "grant"])).rejects.toMatchObject({ code: "23514" });
    await client.query(credits.sql);
    const { rows } = await client.query("select * from balances order by low_at_micro_usd");
    expect(rows).toEqual([
      { account_id: poor, balance_micro_usd: "4000", low_at_micro_usd: "0", next_event_seq: "1" },
      { account_id: rich, balance_micro_usd: "4000", low_at_micro_usd: "2000001", next_event_seq: "1" },
    ]);
    await client.query(post, [poor, "grant"]);
    await expect(client.query(post, [poor, "gift"])).rejects.toMatchObject({ code: "23514" });
  } finally {
    await client.end();
    await database.drop();
  }
});
