import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { keptSecrets } from "../../src/db/migrations/0012_to_0019.ts";
import { sqlBefore } from "../support/migrations.ts";
import { testDatabase } from "../support/postgres.ts";

test("answers with secrets that were kept for a day are emptied; other answers and their places stay", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    for (const sql of sqlBefore(keptSecrets.name)) await client.query(sql);
    const account = randomUUID();
    const keep = (routeId: string) =>
      client.query(
        `insert into idempotency_keys (account_id, caller, route_id, key, body_hash, run_id, locked_until, answer_sealed, created_at)
         values ($1, 'person', $2, 'k', '\\x00', gen_random_uuid(), now(), '\\x1234', now())`,
        [account, routeId],
      );
    await keep("rotate_api_key");
    await keep("deny_request");
    await client.query(keptSecrets.sql);
    const { rows } = await client.query(
      `select route_id, octet_length(answer_sealed) as bytes, secret_until <= now() as over
       from idempotency_keys order by route_id`,
    );
    expect(rows).toEqual([
      { route_id: "deny_request", bytes: 2, over: null },
      { route_id: "rotate_api_key", bytes: 0, over: true },
    ]);
  } finally {
    await client.end();
    await database.drop();
  }
});
