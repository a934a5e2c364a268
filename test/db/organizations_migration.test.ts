import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { organizations } from "../../src/db/migrations/0026_to_0028.ts";
import { sqlBefore } from "../support/migrations.ts";
import { testDatabase } from "../support/postgres.ts";

test("organizations that are there, or are made by the version before, have the owner they had", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  const insert = (id: string) =>
    client.query(
      "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
      [id, `${id}@example.test`],
    );
  await client.connect();
  try {
    for (const sql of sqlBefore(organizations.name)) await client.query(sql);
    await insert(randomUUID());
    await client.query(organizations.sql);
    await insert(randomUUID());
    const { rows } = await client.query("select own_role, four_eyes from accounts");
    expect(rows).toEqual([
      { own_role: "owner", four_eyes: false },
      { own_role: "owner", four_eyes: false },
    ]);
    await expect(client.query("update accounts set own_role = 'admin'")).rejects.toMatchObject({
      code: "23514",
    });
  } finally {
    await client.end();
    await database.drop();
  }
});

test("a domain is verified for one organization at most, whatever the code does", async () => {
  const database = await testDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    for (const sql of sqlBefore(organizations.name)) await client.query(sql);
    await client.query(organizations.sql);
    const claim = async (verified: string) => {
      const id = randomUUID();
      await client.query(
        "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
        [id, `${id}@example.test`],
      );
      return client.query(
        `insert into organization_domains (organization_id, domain, token, created_at, verified_at)
         values ($1, 'example.com', 't', now(), ${verified})`,
        [id],
      );
    };
    await claim("now()");
    await claim("null");
    await expect(claim("now()")).rejects.toMatchObject({ code: "23505" });
  } finally {
    await client.end();
    await database.drop();
  }
});
