import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createReconciliation } from "../../src/accounts/ledger/reconcile.ts";
import { addSeconds } from "../../src/clock.ts";
import { claimLeadership } from "../../src/clusters/leadership.ts";
import { migrations } from "../../src/db/migrate.ts";
import { partNames } from "../../src/installation/part.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { call } from "../keyvault/http/caller_support.ts";
import { type ServiceApi, startServiceApi } from "../support/service_world.ts";
import { lookAt } from "./look_at.ts";

const PATIENT = { timeout: 20_000 };

let api: ServiceApi;
let vault: TestVault;
let vaultClient: VaultClient;

beforeAll(async () => {
  vault = await startVault();
  vaultClient = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
  api = await startServiceApi({
    vault: { health: () => vaultClient.health() },
    certificateFile: join(vault.home.config.tlsDir, "api.pem"),
  });
});
afterAll(async () => {
  await api.stop();
  await vaultClient.close();
  await vault.close();
});

const { figureOf, saidOf } = lookAt(() => api);
const ago = (seconds: number) => addSeconds(api.clock.now(), -seconds);

test("every part has figures with the time that they are of, and its state is the worst of theirs", async () => {
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

describe("api", () => {
  test("its version, the newest migration, and the connections that calls use", async () => {
    const { figures } = await api.look("api");
    expect(figures.api_version).toMatchObject({ value: "1.2.3", state: "well" });
    expect(figures["database_schema usable"]).toMatchObject({ value: migrations.at(-1)?.name });
    expect(figures["deputize_ready api"]).toMatchObject({ value: 1, state: "well" });
    expect(figures.database_calls_waiting).toMatchObject({ value: 0, state: "well" });
  });

  test("a schema that this version does not work on is to be acted on", async () => {
    const strange = ["9998_later", "9999_latest"];
    const rows = strange.map((name) => ({ name, batch: 99, migration_time: api.clock.now() }));
    await api.db("schema_migrations").insert(rows);
    try {
      const { state, figures } = await api.look("api");
      expect([state, figures["database_schema strange"]?.value]).toEqual(["act", "9999_latest"]);
      expect(figures["deputize_ready api"]).toMatchObject({
        value: 0,
        alert: "DeputizeApiNotReady",
        runbook: "docs/observability.md#the-api",
      });
    } finally {
      await api.db("schema_migrations").whereIn("name", strange).delete();
    }
    expect((await api.look("api")).state).toBe("well");
  });

  test("calls that wait for a connection are counted, while the part itself needs none of theirs", async () => {
    const held = await Promise.all(Array.from({ length: 8 }, () => api.db.client.acquireConnection()));
    const waiting = Array.from({ length: 9 }, () => api.db.raw("select 1").then(() => undefined));
    const reading = await api.installation.read("api");
    for (const connection of held) await api.db.client.releaseConnection(connection);
    await Promise.all(waiting);
    const [used, calls] = ["database_connections_used", "database_calls_waiting"].map((name) =>
      reading.figures.find((each) => each.name === name),
    );
    expect([used?.value, calls?.value, calls?.state]).toEqual([8, 9, "look"]);
  });
});

describe("vault", () => {
  test("signs, is sealed, is away: in its own word, with the rule and the section to read", async () => {
    expect(await saidOf("vault", "vault_state")).toEqual(["ready", "well", null]);
    const admin = readIdentity(vault.home, "admin");
    expect((await call(`${vault.url}/v1/seal`, admin, { method: "POST", body: {} })).status).toBe(200);
    const told = async () => (await figureOf("vault", "vault_state")).value;
    // The vault itself gives an answer again for a second.
    await expect.poll(told, PATIENT).not.toBe("ready");
    expect(await figureOf("vault", "vault_state")).toMatchObject({
      value: "sealed",
      state: "act",
      alert: "DeputizeVaultSealed",
      runbook: "docs/keyvault_runbook.md#stop-everything",
    });
    expect((await api.look("vault")).state).toBe("act");
    vault = await vault.restart();
    expect(await saidOf("vault", "vault_state")).toEqual(["unreachable", "act", "DeputizeVaultAbsent"]);
    await vaultClient.close();
    vaultClient = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
    expect(await saidOf("vault", "vault_state")).toEqual(["ready", "well", null]);
  });

  test("the end of the certificate that leads to it", async () => {
    const { value, state } = await figureOf("vault", "vault_certificate_end");
    expect(state).toBe("well");
    const end = new Date(String(value));
    const now = api.clock.now();
    api.clock.set(addSeconds(end, -13 * 86_400));
    // A session does not last until then.
    const { figures } = await api.installation.read("vault");
    api.clock.set(now);
    expect(figures.find(({ name }) => name === "vault_certificate_end")).toMatchObject({
      state: "look",
      alert: "DeputizeVaultClientCertificateEnds",
    });
  });
});

describe("operators", () => {
  test("clusters whose operator leads: since when, under which epoch", async () => {
    expect(await saidOf("operators", "operator_clusters")).toEqual([0, "well", null]);
    const epoch = await claimLeadership(api, { clusterId: "prod-eu" });
    const { figures } = await api.look("operators");
    expect(figures.operator_clusters?.value).toBe(1);
    expect(figures["operator_epoch prod-eu"]?.value).toBe(epoch);
    expect(figures["operator_leads_since prod-eu"]?.value).toBe(api.clock.now().toISOString());
  });
});

describe("ledger", () => {
  const reconcile = () =>
    createReconciliation({ database: api.db, clock: api.clock, log: pino({ level: "silent" }) })();
  const balance = "deputize_ledger_differences balance";

  test("what the last reconciliation found, when it was, and whether it is missed; a look makes none", async () => {
    expect(await saidOf("ledger", "ledger_reconciled")).toEqual([null, "look", null]);
    const { accountId } = await api.person();
    await reconcile();
    const at = api.clock.now().toISOString();
    expect(await saidOf("ledger", "ledger_reconciled")).toEqual([at, "well", null]);
    expect(await saidOf("ledger", balance)).toEqual([0, "well", null]);
    await api.db("balances").where({ account_id: accountId }).increment("balance_micro_usd", 1);
    expect(await saidOf("ledger", balance)).toEqual([0, "well", null]);
    api.clock.advance(60);
    await reconcile();
    const difference = await figureOf("ledger", balance);
    expect(difference).toMatchObject({ value: 1, state: "act", alert: "DeputizeLedgerDiffers" });
    expect(difference.at).toBe(api.clock.now().toISOString());
    const { answer, state } = await api.look("ledger");
    expect(state).toBe("act");
    expect(answer.text).not.toContain(accountId);
    await api.db("balances").where({ account_id: accountId }).decrement("balance_micro_usd", 1);
    await reconcile();
    expect((await api.look("ledger")).state).toBe("well");
    const reported_at = ago(3 * 3_600);
    await api.db("reports").where({ subject: "ledger" }).update({ reported_at });
    expect((await figureOf("ledger", "ledger_reconciled")).state).toBe("well");
    api.clock.advance(1);
    expect((await figureOf("ledger", "ledger_reconciled")).state).toBe("look");
  });
});

describe("a part that gives no answer", () => {
  test("is away, says why, and hides no other", async () => {
    const lock = await api.db.transaction();
    await lock.raw("lock table webhook_deliveries in access exclusive mode");
    try {
      const [webhooks, events] = await Promise.all([api.look("webhooks"), api.look("events")]);
      expect([webhooks.state, webhooks.fault, webhooks.figures]).toEqual([
        "away",
        "no answer within 3 s",
        {},
      ]);
      expect([events.state, events.fault]).toEqual(["well", null]);
    } finally {
      await lock.rollback();
    }
    await expect.poll(async () => (await api.look("webhooks")).state, PATIENT).not.toBe("away");
  });

  test("because of what nobody expected tells it to the log alone", async () => {
    await api.db.raw("alter table reports rename to hidden_reports");
    const { state, fault } = await api.look("ledger");
    await api.db.raw("alter table hidden_reports rename to reports");
    expect([state, fault]).toEqual(["away", "it could not be read; the API's log says why"]);
    expect(api.lines.some((line) => line.includes("a part of the installation could not be read"))).toBe(
      true,
    );
  });
});
