import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createReconciliation } from "../../src/accounts/ledger/reconcile.ts";
import { addSeconds } from "../../src/clock.ts";
import { claimLeadership } from "../../src/clusters/leader_epochs.ts";
import { migrations } from "../../src/db/migrate.ts";
import { storingReports } from "../../src/events/kafka/lag.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { partNames } from "../../src/installation/installation.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { ensureEndpoints } from "../../src/webhooks/endpoint.ts";
import { makeConnection } from "../events/support/connection.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { call } from "../keyvault/http/caller_support.ts";
import { insertNotice } from "../support/account_rows.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { createFakeVault } from "../support/fake_vault.ts";
import { type SeenFigure, type ServiceApi, startServiceApi } from "../support/service_world.ts";

const PATIENT = { timeout: 20_000 };

let api: ServiceApi;
let vault: TestVault;
let vaultClient: VaultClient;

beforeAll(async () => {
  vault = await startVault();
  vaultClient = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
  api = await startServiceApi({
    vault: { ...createFakeVault(), health: () => vaultClient.health() },
    config: { VAULT_CERT_FILE: join(vault.home.config.tlsDir, "api.pem") },
  });
});
afterAll(async () => {
  await api.stop();
  await vaultClient.close();
  await vault.close();
});

const ago = (seconds: number) => addSeconds(api.clock.now(), -seconds);

async function figureOf(part: string, name: string): Promise<SeenFigure> {
  const { figures } = await api.look(part);
  const found = figures[name];
  if (found === undefined) throw new Error(`There is no ${name} among ${Object.keys(figures).join(", ")}`);
  return found;
}

async function seen(part: string, name: string): Promise<[unknown, unknown]> {
  const { value, state } = await figureOf(part, name);
  return [value, state];
}

async function valuesOf(part: string): Promise<Record<string, unknown>> {
  const { state, figures } = await api.look(part);
  expect([part, state]).toEqual([part, "well"]);
  return Object.fromEntries(Object.entries(figures).map(([name, { value }]) => [name, value]));
}

test("every part shows its figures, the time at which they were read, and the worst state of any figure", async () => {
  for (const part of partNames) {
    const { answer, state, figures } = await api.look(part);
    const now = api.clock.now().toISOString();
    expect([part, answer.body.part, answer.body.at, answer.body.fault]).toEqual([part, part, now, null]);
    const all = Object.values(figures);
    expect(all.length).toBeGreaterThan(0);
    expect(all.map(({ at }) => at)).toEqual(all.map(() => now));
    const worst = ["act", "look", "well"].find((one) => all.some((each) => each.state === one));
    expect([part, state]).toEqual([part, worst]);
  }
});

test("the API part shows the version, the newest migration, and whether the API supports the schema", async () => {
  expect(await valuesOf("api")).toEqual({
    api_version: "0.0.0",
    database_schema: "usable",
    newest_migration: migrations.at(-1)?.name,
  });
  const strange = ["9998_later", "9999_latest"];
  const rows = strange.map((name) => ({ name, batch: 99, migration_time: api.clock.now() }));
  await api.db("schema_migrations").insert(rows);
  try {
    expect(await seen("api", "database_schema")).toEqual(["strange", "act"]);
    expect((await figureOf("api", "newest_migration")).value).toBe("9999_latest");
  } finally {
    await api.db("schema_migrations").whereIn("name", strange).delete();
  }
});

test("the vault part shows when the client certificate expires, and whether the vault is ready, sealed or unreachable", async () => {
  expect(await seen("vault", "vault_state")).toEqual(["ready", "well"]);
  expect(Date.parse(String((await figureOf("vault", "vault_certificate_end")).value))).toBeGreaterThan(
    api.clock.now().getTime(),
  );
  const admin = readIdentity(vault.home, "admin");
  expect((await call(`${vault.url}/v1/seal`, admin, { method: "POST", body: {} })).status).toBe(200);
  // The vault caches its health answer for a second.
  await expect.poll(() => seen("vault", "vault_state"), PATIENT).toEqual(["sealed", "act"]);
  vault = await vault.restart();
  expect(await seen("vault", "vault_state")).toEqual(["unreachable", "act"]);
  await vaultClient.close();
  vaultClient = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
  expect(await seen("vault", "vault_state")).toEqual(["ready", "well"]);
});

describe("the workers part", () => {
  test("counts workers as running while their leases last", async () => {
    expect(await seen("workers", "workers")).toEqual([0, "act"]);
    expect(await seen("workers", "outbox_shards_free")).toEqual([8, "look"]);
    const leases = createShardLeases(api.db, randomUUID(), 60);
    await leases.renew();
    expect(await seen("workers", "workers")).toEqual([1, "well"]);
    expect(await seen("workers", "outbox_shards_free")).toEqual([0, "well"]);
    const gone = createShardLeases(api.db, randomUUID(), 1);
    await gone.renew();
    expect((await figureOf("workers", "workers")).value).toBe(2);
    await expect.poll(async () => (await figureOf("workers", "workers")).value, PATIENT).toBe(1);
    await leases.release();
    expect(await seen("workers", "workers")).toEqual([0, "act"]);
  });

  test("shows that Kafka responds for a minute after a worker reported it", async () => {
    expect(await seen("workers", "event_way")).toEqual(["embedded", "well"]);
    await api.db("event_way").update({ way: "kafka" });
    expect(await seen("workers", "event_way")).toEqual(["kafka", "well"]);
    expect(await seen("workers", "kafka_answers")).toEqual([0, "act"]);
    const lag = { name: "kafka_lag", gauges: {}, read: async () => ({}), close: async () => {} };
    await storingReports(lag, api.db).read(ago(59));
    expect(await seen("workers", "kafka_answers")).toEqual([1, "well"]);
    expect((await figureOf("workers", "kafka_answers")).at).toBe(ago(59).toISOString());
    api.clock.advance(1);
    expect(await seen("workers", "kafka_answers")).toEqual([0, "act"]);
    await storingReports(lag, api.db).read(ago(0));
    await storingReports(lag, api.db).read(ago(300));
    expect(await seen("workers", "kafka_answers")).toEqual([1, "well"]);
    await api.db("event_way").update({ way: "embedded" });
  });

  test("uses workers' reports about Kafka, and a worker that cannot store a report still measures Kafka", async () => {
    const lag = { name: "kafka_lag", gauges: {}, read: async () => ({}), close: async () => {} };
    const broken = { raw: async () => Promise.reject(new Error("away")) } as never;
    expect(await storingReports(lag, broken).read(ago(0))).toEqual({});
  });
});

test("the events part shows how many events wait, since when, and how many events a consumer could not handle", async () => {
  const connection = await makeConnection(api.db, null);
  for (const seconds of [60, 901]) await append(api.db, deniedEvent(connection, `${seconds}`), ago(seconds));
  const letter = { event: {}, reason: "tried", created_at: ago(1) };
  await api.db("dead_letters").insert({ ...letter, consumer: "webhooks", event_id: randomUUID() });
  expect(await valuesOf("events")).toMatchObject({
    deputize_outbox_events: 2,
    deputize_outbox_oldest_seconds: 901,
    "deputize_consumer_oldest_seconds webhooks": 901,
    "deputize_consumer_oldest_seconds notices": 0,
    "deputize_dead_letters webhooks": 1,
  });
  await api.db("event_way").update({ way: "kafka" });
  expect((await figureOf("events", "deputize_dead_letters_uncarried")).value).toBe(1);
  await api.db("event_way").update({ way: "embedded" });
  await api.db("dead_letters").delete();
  await api.db("outbox").delete();
});

test("the webhooks part counts unfinished deliveries, and paused and suspended callbacks", async () => {
  const { connectionId } = await makeConnection(api.db, "https://hooks.example.test/");
  for (const state of ["pending", "pending", "sending", "held", "failed", "delivered"] as const) {
    await insertDelivery(api.db, connectionId, { at: ago(1), state, attempts: 2 });
  }
  await ensureEndpoints(api.db, [connectionId], ago(0));
  const suspended = { state: "suspended", suspend_reason: "gone", suspended_at: ago(1) } as const;
  await api.db("webhook_endpoints").where({ connection_id: connectionId }).update(suspended);
  expect(await valuesOf("webhooks")).toEqual({
    "deputize_webhook_deliveries pending": 2,
    "deputize_webhook_deliveries sending": 1,
    "deputize_webhook_deliveries held": 1,
    "deputize_webhook_endpoints suspended": 1,
    "deputize_webhook_endpoints paused": 0,
  });
});

test("the mail part shows waiting notices, and codes that no mail server has accepted yet", async () => {
  const { accountId } = await makeConnection(api.db, null);
  await api.db("sign_in_mails").delete();
  expect((await figureOf("mail", "sign_in_mails_last")).value).toBeNull();
  await insertNotice(api.db, { accountId, at: ago(0), createdAt: ago(3_600) });
  await api.client().signIn("ada@example.test");
  expect(await valuesOf("mail")).toEqual({
    deputize_notices_waiting: 1,
    deputize_notices_oldest_seconds: 3_600,
    sign_in_mails_under_way: 0,
    sign_in_mails_last: api.clock.now().toISOString(),
  });
  const codes = async (change: object) => {
    await api.db("sign_in_mails").update(change);
    return (await figureOf("mail", "sign_in_mails_under_way")).value;
  };
  const mail = await api.db("sign_in_mails").first();
  expect(await codes({ mailed_at: null, created_at: ago(60) })).toBe(1);
  expect(await codes({ kind: "notice" })).toBe(0);
  expect(await codes({ kind: mail?.kind ?? "digits", expires_at: ago(0) })).toBe(0);
  await api.db("notices").delete();
});

test("the operators part shows since when each cluster has had its leader", async () => {
  expect(await valuesOf("operators")).toEqual({ operator_clusters: 0 });
  await claimLeadership(api, { clusterId: "prod-eu" });
  expect(await valuesOf("operators")).toEqual({
    operator_clusters: 1,
    "operator_leads_since prod-eu": api.clock.now().toISOString(),
  });
});

test("the ledger part shows the result of the last reconciliation, and starts no reconciliation", async () => {
  const log = pino({ level: "silent" });
  const reconcile = createReconciliation({ database: api.db, clock: api.clock, log });
  const differences = "deputize_ledger_differences";
  expect(await seen("ledger", "ledger_reconciled")).toEqual([null, "look"]);
  const { accountId } = await api.person();
  await reconcile();
  const at = api.clock.now().toISOString();
  expect(await seen("ledger", "ledger_reconciled")).toEqual([at, "well"]);
  expect(await seen("ledger", differences)).toEqual([0, "well"]);
  await api.db("balances").where({ account_id: accountId }).increment("balance_micro_usd", 1);
  expect(await seen("ledger", differences)).toEqual([0, "well"]);
  api.clock.advance(60);
  await reconcile();
  expect(await figureOf("ledger", differences)).toMatchObject({
    value: 1,
    state: "act",
    at: api.clock.now().toISOString(),
  });
  expect((await api.look("ledger")).answer.text).not.toContain(accountId);
});

describe("a part that does not respond", () => {
  test("counts as unavailable with a reason, and does not affect other parts", async () => {
    const lock = await api.db.transaction();
    await lock.raw("lock table webhook_deliveries in access exclusive mode");
    try {
      const [webhooks, events] = await Promise.all([api.look("webhooks"), api.look("events")]);
      const { state, fault, figures } = webhooks;
      expect([state, fault, figures]).toEqual(["away", "no answer within 3 s", {}]);
      expect([events.state, events.fault]).toEqual(["well", null]);
    } finally {
      await lock.rollback();
    }
    await expect.poll(async () => (await api.look("webhooks")).state, PATIENT).not.toBe("away");
  });

  test("shows no details of an unexpected error, which is only logged", async () => {
    await api.db.raw("alter table reports rename to hidden_reports");
    const { state, fault } = await api.look("ledger");
    await api.db.raw("alter table hidden_reports rename to reports");
    expect([state, fault]).toEqual(["away", "it could not be read; the API's log says why"]);
    expect(api.lines.join()).toContain("a part of the installation could not be read");
  });
});

test("the parts of an installation are read over separate database connections", async () => {
  const start = (await api.db.raw("select clock_timestamp() as now")).rows[0].now;
  await api.look("ledger");
  const { rows } = await api.db.raw(
    `select distinct application_name from pg_stat_activity
     where datname = current_database() and query like '%from "reports"%' and query_start > ? and pid <> pg_backend_pid()`,
    [start],
  );
  expect(rows).toEqual([{ application_name: "deputize-installation" }]);
});
