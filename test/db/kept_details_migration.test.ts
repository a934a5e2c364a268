import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { grantAmounts, verifierNames } from "../../src/db/migrations/0012_to_0019.ts";
import { sqlBefore } from "../support/migrations.ts";
import { testDatabase } from "../support/postgres.ts";

test("decisions made elsewhere get the verifier's names of today, and grants the amount of their posting", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    for (const sql of sqlBefore(verifierNames.name)) await client.query(sql);
    const [shop, platform, connection, stranger] = Array.from({ length: 4 }, () => randomUUID());
    await client.query(
      `insert into accounts (account_id, email, onboarding_step, account_type, organization_name, created_at)
       values ($1, 'shop@example.test', 'account_type', 'organization', 'Shops', now())`,
      [shop],
    );
    await client.query(
      `insert into platforms (platform_id, account_id, name, description, surface_type, default_allowed_scopes,
                              signing_secret_sealed, created_at, expires_at)
       values ($1, $2, 'Shop', '', 'agentic_api', '{data:read}', '\\x00', now(), now())`,
      [platform, shop],
    );
    await client.query(
      `insert into connections (connection_id, account_id, platform_id, verifier_id, webhook_secret_sealed, created_at)
       values ($1, $2, $3, 'shop', '\\x00', now())`,
      [connection, shop, platform],
    );
    const decided = `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id,
                                               decision, verifier_account_id)
      values ($1, now(), gen_random_uuid(), 'proof.verified', $2, 'a', 'allow', $3)`;
    await client.query(decided, [shop, connection, null]);
    await client.query(decided, [stranger, connection, shop]);
    await client.query(
      "insert into ledger_postings values ($1, '2026-01-01Z', '\\x00', 'grant', 'grants', 'credit', 7)",
      [shop],
    );
    await client.query("insert into credit_grants values ('r', $1, '2026-01-01Z', '\\x00', 'paid')", [shop]);
    await client.query("begin");
    await client.query(verifierNames.sql);
    await client.query(grantAmounts.sql);
    await client.query("commit");
    const { rows } = await client.query(
      `select account_id, verifier_platform_name as platform, verifier_organization_name as organization
       from audit_events order by platform nulls last`,
    );
    expect(rows).toEqual([
      { account_id: stranger, platform: "Shop", organization: "Shops" },
      { account_id: shop, platform: null, organization: null },
    ]);
    expect((await client.query("select reference, amount_micro_usd from credit_grants")).rows).toEqual([
      { reference: "r", amount_micro_usd: "7" },
    ]);
  } finally {
    await client.end();
    await database.drop();
  }
});
