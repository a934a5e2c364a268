import { randomUUID } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import type { RowCodes } from "../../../keyvault/audit/row_codes.ts";
import { available } from "../../../keyvault/db/database.ts";
import type { TenantRow } from "../../../keyvault/db/rows.ts";
import { type CreatedKey, type CreateKeyParts, createKeyCreation } from "../../../keyvault/keys/create.ts";
import { createCustody } from "../../../keyvault/keys/custody.ts";
import { exceedsQuota, placeTenant } from "../../../keyvault/keys/new_key.ts";
import { verifyAttestation } from "../../../keyvault/keys/store.ts";
import { keyId } from "../../../src/protocol/keys/hybrid.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const request = { tenant: "acc-1", purpose: "agent", label: "agent one" } as const;
const records = (keyId: string) =>
  vault.home.sql<{ outcome: string; detail: Record<string, string> }>(
    "select caller, role, purpose, statement, outcome, detail from audit where key_id = $1 order by seq",
    [keyId],
  );

test("a new key has an id derived from its public key, an attestation, and a record with caller and tenant", async () => {
  const key = await vault.makeKey(request);
  expect(key.key_id).toBe(keyId(key.public_key));
  const [service] = await vault.home.sql<{ public_key: CreatedKey["public_key"] }>(
    "select public_key from keys where tenant = 'vault'",
  );
  const about = { keyId: key.key_id, publicKey: key.public_key, tenant: "acc-1", purpose: "agent" } as const;
  expect(await verifyAttestation(key.attestation, about, service!.public_key)).toBe(true);
  expect(await records(key.key_id)).toEqual([
    {
      caller: "api",
      role: "api",
      purpose: "agent",
      statement: "key_create",
      outcome: "granted",
      detail: { tenant: "acc-1", state: expect.stringMatching(/^[0-9a-f]{64}$/) },
    },
  ]);
});

test("a repeated request returns the same key, and a different request with the same requestKey is refused", async () => {
  const key = await vault.makeKey(request, "same-name");
  const count = () => vault.home.sql("select count(*) from keys");
  const before = await count();
  expect(await vault.makeKey({ ...request }, "same-name")).toEqual(key);
  for (const other of [
    { ...request, tenant: "acc-2" },
    { ...request, label: "x" },
    { ...request, ceiling: [] },
    { ...request, purpose: "account_root" as const },
  ]) {
    expect(await vault.vault.createKey(API, "same-name", other)).toMatchObject({
      refused: "idempotency_conflict",
    });
  }
  expect(await count()).toEqual(before);
  const told = (await records(key.key_id)).map(({ outcome, detail }) => [outcome, detail.tenant]);
  expect(told.slice(2)).toEqual(
    ["acc-2", "acc-1", "acc-1", "acc-1"].map((tenant) => ["idempotency_conflict", tenant]),
  );
});

test("a quota counts active keys only, and 0 means no quota", async () => {
  const tenant = "acc-quota";
  const { key_id } = await vault.makeAgent(tenant);
  await vault.makeAgent(tenant);
  const beyond = (quota: number) =>
    vault.vault.journal.change(async (client) => ({ value: await exceedsQuota(client, tenant, quota) }));
  expect(await beyond(3)).toBeUndefined();
  expect(await beyond(2)).toMatchObject({ refused: "policy_violation" });
  expect(await beyond(0)).toBeUndefined();
  for (const [state, destroyAt] of [
    ["destroyed", "now()"],
    ["destroying", "now()"],
    ["disabled", "null"],
  ]) {
    await vault.home.sql(
      `update keys set state = '${state}', disabled_at = now(), destroy_at = ${destroyAt} where key_id = $1`,
      [key_id],
    );
    expect(await beyond(2), state).toBeUndefined();
  }
});

test("concurrent requests with the same requestKey create one key", async () => {
  const keys = await Promise.all(
    Array.from({ length: 16 }, () => vault.makeKey({ ...request, tenant: "acc-once" }, "at-once")),
  );
  expect(new Set(keys.map(({ key_id }) => key_id)).size).toBe(1);
  expect(await vault.home.sql("select from keys where tenant = 'acc-once'")).toHaveLength(1);
});

test("a tenant's first keys, created concurrently, share one data key, and each of them signs", async () => {
  const keys = await Promise.all(Array.from({ length: 16 }, () => vault.makeAgent("acc-race")));
  expect(await vault.home.sql("select from tenants where tenant = 'acc-race'")).toHaveLength(1);
  for (const { key_id, public_key } of keys) {
    const key = await vault.vault.store.find(key_id);
    expect(key?.publicKey).toEqual(public_key);
    expect(await vault.vault.custody.isIntact(key!)).toBe(true);
  }
  const [row] = await vault.home.sql(
    "select count(*) = count(distinct wrapped_data_key) and count(*) > 1 as differ from tenants",
  );
  expect(row).toEqual({ differ: true });
});

test("after a restart, keys have the same public parts, and their rows contain no seed", async () => {
  const key = await vault.makeKey(request, "before-restart");
  vault = await vault.restart();
  expect(await vault.makeKey(request, "before-restart")).toEqual(key);
  const found = await vault.vault.store.find(key.key_id);
  expect(found?.publicKey).toEqual(key.public_key);
  expect(await vault.vault.custody.isIntact(found!)).toBe(true);
  expect(found?.wrappedSeeds).toHaveLength(12 + 64 + 16);
});

test("an error of the database is not shown to callers", async () => {
  const failing = available(() => Promise.reject(new Error("password of db.internal")));
  const error: Error = await failing.catch((reason: Error) => reason);
  expect(error).toMatchObject({ code: "unavailable", cause: { message: "password of db.internal" } });
  expect(error.message).not.toContain("internal");
});

/** Returns the outcome and the records. */
async function ask(other: Partial<CreateKeyParts>) {
  const told: Partial<AuditEntry>[] = [];
  const note = ({ caller, statement, outcome, detail }: AuditEntry) =>
    void told.push({ caller, statement, outcome, ...(detail && { detail }) });
  const { journal } = vault.vault;
  const create = createKeyCreation({
    ...vault.parts(),
    ...{ keysPerTenant: 0, service: undefined },
    journal: {
      ...journal,
      async record(entry) {
        note(entry);
        return journal.record(entry);
      },
      change: (apply) =>
        journal.change(async (client, seq) => {
          const change = await apply(client, seq);
          if (change.entry !== undefined) note(change.entry);
          return change;
        }),
    },
    ...other,
  });
  const wanted = { ...request, tenant: "acc-told", ceiling: [] };
  const outcome = await create(API, randomUUID(), wanted).catch((error: { code: string }) => error.code);
  return { outcome, told };
}

const told = (outcome: string) => [
  { caller: API, statement: "key_create", outcome, detail: { tenant: "acc-told" } },
];
const end = () =>
  vault.home.sql("update tenants set state = 'destroying', destroy_at = now() where tenant = 'acc-told'");
const putBack = () =>
  vault.home.sql("update tenants set state = 'active', destroy_at = null where tenant = 'acc-told'");
const refusal = { refused: "policy_violation" };

test("the refusal of a key because of the quota, an altered tenant or a tenant being destroyed is recorded", async () => {
  await vault.makeAgent("acc-told");
  const beyond = await ask({ keysPerTenant: 1 });
  expect(beyond).toMatchObject({ outcome: refusal, told: told("policy_violation") });
  await end();
  expect(await ask({})).toEqual({ outcome: "key_damaged", told: told("failed") });
  const judged = { check: async () => [true], now: () => 0 } as unknown as RowCodes;
  expect(await ask({ rowCodes: judged })).toMatchObject({ outcome: refusal, told: told("policy_violation") });
  await putBack();
  const { dataKeys } = vault.vault;
  const meanwhile: typeof dataKeys = {
    ...dataKeys,
    async use(wrapped, work) {
      await end();
      return dataKeys.use(wrapped, work);
    },
  };
  const altered = await ask({ custody: createCustody(meanwhile) });
  expect(altered).toMatchObject({ outcome: "key_damaged", told: told("failed") });
  await putBack();
});

const TENANT: TenantRow = {
  ...{ tenant: "acc-1", kek: "kek-1", wrapped_data_key: Buffer.from("data key"), created_at: new Date(0) },
  ...{ state: "active", pending: null, destroy_at: null, state_seq: 1, state_mac: Buffer.alloc(32) },
};

/**
 * Calls placeTenant with a database in which the tenant `stored` already exists. Returns the outcome and the
 * number of queries.
 */
async function place(keks: string[], stored: Partial<TenantRow> = {}, intact = true) {
  let queries = 0;
  const query = async () => {
    queries += 1;
    return { rows: [{ ...TENANT, ...stored }] };
  };
  const rowCodes = { check: async () => [intact] } as unknown as RowCodes;
  return { outcome: await placeTenant({ query } as unknown as pg.Client, rowCodes, TENANT, keks), queries };
}

test("a new data key is not stored if the version that wraps it was retired meanwhile", async () => {
  expect(await place(["kek-2", "kek-3"])).toEqual({ outcome: "raced", queries: 0 });
  expect(await place(["kek-1", "kek-2"])).toMatchObject({ outcome: undefined });
});

test("a key is not created for a tenant that was altered, is being destroyed, or got a different data key meanwhile", async () => {
  expect(await place(["kek-1"], { wrapped_data_key: Buffer.from("another") })).toMatchObject({
    outcome: "raced",
  });
  expect(await place(["kek-1"], {}, false)).toMatchObject({ outcome: "damaged" });
  for (const state of ["destroying", "destroyed"] as const) {
    expect(await place(["kek-1"], { state })).toMatchObject({ outcome: refusal });
  }
});
