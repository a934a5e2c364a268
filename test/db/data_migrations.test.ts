import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Connection, openConnection } from "../../src/db/connection.ts";
import { type Migration, migrations } from "../../src/db/migrate.ts";
import { outcomes } from "../../src/db/migrations/from_0005.ts";
import { credits, grantAmounts, keptSecrets, verifierNames } from "../../src/db/migrations/from_0012.ts";
import { organizations } from "../../src/db/migrations/from_0026.ts";
import { mailsAndMakers } from "../../src/db/migrations/from_0032.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";

/** The tests share one database. Each test applies the migrations up to the one that it checks. */

let database: TestDatabase;
let client: Connection;
let applied = 0;

beforeAll(async () => {
  database = await testDatabase();
  client = openConnection({ url: database.url, name: "test" });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

async function before(migration: Migration): Promise<void> {
  while (migrations[applied] !== migration) await apply();
}

async function apply(): Promise<void> {
  const { sql, indexes = [] } = migrations[applied++]!;
  for (const { name, table, on } of indexes) await client.query(`create index ${name} on ${table} ${on}`);
  await client.query(sql);
}

/** Returns a function that records what somebody did in an organization, at a minute of one hour. */
function activityOf(organization: string) {
  return (who: string, operation: string, minute: number, target: object, status = "done") =>
    client.query(
      `insert into organization_activity (organization_id, activity_id, occurred_at, actor_account_id, actor_email,
                                          actor_role, operation, target, status)
       values ($1, gen_random_uuid(), $2, $3, 'e', 'owner', $4, $5, $6)`,
      [organization, `2026-05-01T10:0${minute}:00Z`, who, operation, target, status],
    );
}

async function insertAccount(): Promise<string> {
  const id = randomUUID();
  await client.query(
    "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
    [id, `${id}@example.test`],
  );
  return id;
}

test("the migration of outcomes copies exactly the reported outcomes to their table", async () => {
  await before(outcomes);
  const insert = `insert into invocations (account_id, connection_id, invocation_id, operation_hash, event_id,
      decided_at, outcome, outcome_detail, outcome_occurred_at, outcome_recorded_at)
    values ($1, $1, $2, '\\x00', $3, '2026-05-01T10:00:00Z', $4, $5, $6, $7)`;
  const [account, told, untold] = [randomUUID(), randomUUID(), randomUUID()];
  const times = ["2026-05-01T10:00:01Z", "2026-05-01T10:00:02Z"];
  await client.query(insert, [account, "told", told, "failed", "why", ...times]);
  await client.query(insert, [account, "untold", untold, null, null, null, null]);
  await apply();
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
});

test("the credits migration sets the low-credit threshold of existing accounts to 20 % of their alpha credits, and allows grants", async () => {
  await before(credits);
  const [rich, poor] = [await insertAccount(), await insertAccount()];
  await client.query("insert into balances values ($1, 4000), ($2, 4000)", [rich, poor]);
  const post = `insert into ledger_postings values ($1, now(), '\\x00', $2, 'grants', 'credit', 10000009)`;
  await client.query(post, [rich, "alpha_credit"]);
  await expect(client.query(post, [poor, "grant"])).rejects.toMatchObject({ code: "23514" });
  await apply();
  const { rows } = await client.query("select * from balances order by low_at_micro_usd");
  expect(rows).toEqual([
    { account_id: poor, balance_micro_usd: 4000, low_at_micro_usd: 0, next_event_seq: 1 },
    { account_id: rich, balance_micro_usd: 4000, low_at_micro_usd: 2000001, next_event_seq: 1 },
  ]);
  await client.query(post, [poor, "grant"]);
  await expect(client.query(post, [poor, "gift"])).rejects.toMatchObject({ code: "23514" });
});

test("migrations add the verifier's current names to decisions made elsewhere, and amounts to grants", async () => {
  await before(verifierNames);
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
  await apply();
  await before(grantAmounts);
  await apply();
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
    { reference: "r", amount_micro_usd: 7 },
  ]);
});

test("the migration of stored secrets erases stored answers with secrets, and keeps other answers", async () => {
  await before(keptSecrets);
  for (const routeId of ["rotate_api_key", "deny_request"]) {
    await client.query(
      `insert into idempotency_keys (account_id, caller, route_id, key, body_hash, run_id, locked_until, answer_sealed, created_at)
       values ($1, 'person', $2, 'k', '\\x00', gen_random_uuid(), now(), '\\x1234', now())`,
      [randomUUID(), routeId],
    );
  }
  await apply();
  const { rows } = await client.query(
    `select route_id, octet_length(answer_sealed) as bytes, secret_until <= now() as over
     from idempotency_keys order by route_id`,
  );
  expect(rows).toEqual([
    { route_id: "deny_request", bytes: 2, over: null },
    { route_id: "rotate_api_key", bytes: 0, over: true },
  ]);
});

test("the organizations migration keeps the owner of existing organizations and of organizations created by the former version", async () => {
  await before(organizations);
  const ids = [await insertAccount()];
  await apply();
  ids.push(await insertAccount());
  const { rows } = await client.query(
    "select own_role, four_eyes from accounts where account_id = any ($1)",
    [ids],
  );
  expect(rows).toEqual([
    { own_role: "owner", four_eyes: false },
    { own_role: "owner", four_eyes: false },
  ]);
  const changed = client.query("update accounts set own_role = 'admin'");
  await expect(changed).rejects.toMatchObject({ code: "23514" });
  const claim = async (verified: string) =>
    client.query(
      `insert into organization_domains (organization_id, domain, token, created_at, verified_at)
       values ($1, 'example.com', 't', now(), ${verified})`,
      [await insertAccount()],
    );
  await claim("now()");
  await claim("null");
  await expect(claim("now()"), "a domain is one organization's").rejects.toMatchObject({ code: "23505" });
});

/** Sets up links, bindings and confirmations, and returns a check of the makers that the migration finds. */
async function withSetups(): Promise<() => Promise<void>> {
  const [opener, owner, former, other] = [
    await insertAccount(),
    await insertAccount(),
    await insertAccount(),
    await insertAccount(),
  ];
  await client.query(
    "insert into organization_members (organization_id, account_id, role, joined_at) values ($1, $2, 'owner', now())",
    [opener, owner],
  );
  const act = activityOf(opener);
  const at = "2026-05-01T10:05:00Z";
  const link = async (account: string, username: string) => {
    await client.query("insert into cluster_approvers values (gen_random_uuid(), $1, 'c1', $2, $3)", [
      account,
      username,
      at,
    ]);
    return { cluster_id: "c1", username };
  };
  await act(former, "link_cluster_approver", 1, await link(opener, "of-owner"));
  await act(owner, "link_cluster_approver", 2, { cluster_id: "c1", username: "of-owner" }, "begun");
  await act(former, "link_cluster_approver", 3, { cluster_id: "c1", username: "of-owner" }, "refused");
  await act(former, "link_cluster_approver", 6, { cluster_id: "c1", username: "of-owner" });
  await act(former, "link_cluster_approver", 1, await link(opener, "of-former"));
  await link(opener, "older");
  await link(other, "personal");
  const bind = "insert into namespace_bindings values ($1, 'c1', $2, null, false, $3, $4)";
  await client.query(bind, [opener, "team", at, at]);
  await act(former, "accept_namespace_binding", 1, { cluster: "c1", namespace: "team" });
  await client.query(bind, [opener, "older", at, at]);
  await client.query(bind, [opener, "asking", at, null]);
  for (const [kind, name, who] of [
    ["platform", "p1", owner],
    ["agent", "a1", former],
  ] as const) {
    await client.query("insert into adoptions values ($1, $2, $3, 'c1', 'team', 'n', $4)", [
      kind,
      name,
      opener,
      at,
    ]);
    await act(who, `confirm_${kind}_adoption`, 1, { [`${kind}_id`]: name });
  }
  await client.query("insert into adoptions values ('platform', 'p2', $1, 'c1', 'team', 'n', $2)", [
    other,
    at,
  ]);
  return async () => {
    const names = new Map([
      [opener, "opener"],
      [owner, "owner"],
      [former, "former"],
      [other, "other"],
    ]);
    const found = async (sql: string) =>
      (await client.query(sql)).rows.map((row) =>
        Object.values(row).map((id) => names.get(String(id)) ?? id),
      );
    expect(
      await found("select username, member_id, linked_by from cluster_approvers order by username"),
    ).toEqual([
      ["of-former", null, "former"],
      ["of-owner", "owner", "owner"],
      ["older", "opener", "opener"],
      ["personal", "other", "other"],
    ]);
    expect(
      await found("select namespace, accepted_by from namespace_bindings where cluster_id = 'c1' order by 1"),
    ).toEqual([
      ["asking", null],
      ["older", "opener"],
      ["team", null],
    ]);
    expect(await found("select adopted_id, confirmed_by from adoptions order by adopted_id")).toEqual([
      ["p1", "owner"],
      ["p2", "other"],
    ]);
  };
}

test("the migration of makers finds who set up what, and forgets former members", async () => {
  await before(mailsAndMakers);
  const checkSetups = await withSetups();
  const [opener, owner, former, person] = [
    await insertAccount(),
    await insertAccount(),
    await insertAccount(),
    await insertAccount(),
  ];
  const names = new Map([
    [opener, "opener"],
    [owner, "owner"],
    [person, "person"],
  ]);
  await client.query(
    "insert into organization_members (organization_id, account_id, role, joined_at) values ($1, $2, 'owner', now())",
    [opener, owner],
  );
  const humans = ["by-nobody", "by-owner", "by-former", "replaced"];
  for (const human of humans) {
    await client.query("update accounts set human_id = $1 where account_id = $2", [
      human,
      await insertAccount(),
    ]);
  }
  const platformOf = async (account: string, externalId: string | null = null) => {
    const [platform, connection] = [randomUUID(), randomUUID()];
    await client.query(
      `insert into platforms (platform_id, account_id, name, description, surface_type, default_allowed_scopes,
                              signing_secret_sealed, created_at, expires_at, external_id)
       values ($1, $2, 'Shop', '', 'agentic_api', '{data:read}', '\\x00', now(), now(), $3)`,
      [platform, account, externalId],
    );
    await client.query(
      `insert into connections (connection_id, account_id, platform_id, verifier_id, webhook_secret_sealed, created_at, outside_verifiers)
       values ($1, $2, $3, 'shop', '\\x00', now(), '{bank}')`,
      [connection, account, platform],
    );
    return { platform, connection };
  };
  const accepted = (account: string, connection: string, human: string) =>
    client.query(
      "insert into accepted_principals values ($1, $2, $3, '{data:read}', '{data:read}', null, now())",
      [account, connection, human],
    );
  const act = activityOf(opener);
  const found = async (sql: string, id: string) =>
    (await client.query(sql, [id])).rows.map((row) =>
      Object.values(row).map((value) => names.get(String(value)) ?? value),
    );
  const shop = await platformOf(opener);
  const declared = await platformOf(opener, "c1.object");
  const personal = await platformOf(person);
  for (const human of humans) await accepted(opener, shop.connection, human);
  await accepted(opener, declared.connection, "by-nobody");
  await accepted(person, personal.connection, "by-nobody");
  const accept = { platform_id: shop.platform, human_id: "replaced" };
  await act(owner, "accept_principal", 1, { ...accept, human_id: "by-owner" });
  await act(former, "accept_principal", 2, { ...accept, human_id: "by-owner" }, "refused");
  await act(former, "accept_principal", 1, { ...accept, human_id: "by-former" });
  await act(former, "accept_principal", 1, accept);
  await act(owner, "change_connection", 1, { connection_id: shop.connection });
  await act(owner, "change_connection", 1, { connection_id: declared.connection });
  await act(opener, "change_connection", 2, { connection_id: declared.connection });
  for (const [namespace, who] of [
    ["of-former", former],
    ["of-owner", owner],
  ] as const) {
    await client.query("insert into namespace_bindings values ($1, 'c2', $2, null, false, now(), now())", [
      opener,
      namespace,
    ]);
    await act(who, "accept_namespace_binding", 3, { cluster: "c2", namespace });
  }
  await apply();
  await checkSetups();
  const MAKERS =
    "select human_id, accepted_by from accepted_principals where connection_id = $1 order by human_id";
  expect(await found(MAKERS, shop.connection)).toEqual([
    ["by-former", null],
    ["by-nobody", "opener"],
    ["by-owner", "owner"],
    ["replaced", null],
  ]);
  expect(await found(MAKERS, declared.connection)).toEqual([["by-nobody", null]]);
  expect(await found(MAKERS, personal.connection)).toEqual([["by-nobody", "person"]]);
  const LISTER = "select outside_verifiers_by from connections where connection_id = $1";
  expect(await found(LISTER, shop.connection)).toEqual([["owner"]]);
  expect(await found(LISTER, declared.connection), "two members changed it").toEqual([[null]]);
  expect(await found(LISTER, personal.connection)).toEqual([["person"]]);
  const BOUND =
    "select namespace, accepted_by from namespace_bindings where cluster_id = 'c2' and account_id = $1 order by 1";
  expect(await found(BOUND, opener)).toEqual([
    ["of-former", null],
    ["of-owner", "owner"],
  ]);
});
