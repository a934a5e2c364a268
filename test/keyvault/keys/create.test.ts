import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { available } from "../../../keyvault/db/database.ts";
import type { Attestation } from "../../../keyvault/db/rows.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { exceedsQuota } from "../../../keyvault/keys/new_key.ts";
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
const rows = async () =>
  (await vault.home.sql<{ count: number }>("select count(*)::int from keys"))[0]!.count;

test("a key's id is its public key's, and its attestation is the service key's word on it", async () => {
  const key = await vault.makeKey(request);
  expect(key.key_id).toBe(keyId(key.public_key));
  const [service] = await vault.home.sql<{ public_key: CreatedKey["public_key"] }>(
    "select public_key from keys where tenant = 'vault'",
  );
  const about = { keyId: key.key_id, publicKey: key.public_key, tenant: "acc-1", purpose: "agent" } as const;
  expect(await verifyAttestation(key.attestation, about, service!.public_key)).toBe(true);
  const other = await vault.makeKey(request);
  const lies: [Attestation, typeof about][] = [
    [key.attestation, { ...about, tenant: "acc-2" } as never],
    [key.attestation, { ...about, purpose: "account_root" } as never],
    [key.attestation, { ...about, publicKey: other.public_key }],
    [{ ...key.attestation, created_at: key.attestation.created_at + 1 }, about],
    [{ ...key.attestation, signature: other.attestation.signature }, about],
  ];
  for (const [attestation, key] of lies) {
    expect(await verifyAttestation(attestation, key, service!.public_key)).toBe(false);
  }
});

test("the record of a new key is there, with the caller and the tenant", async () => {
  const key = await vault.makeKey(request);
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

test("the same request under the same name gives the same key, and another one is refused", async () => {
  const key = await vault.makeKey(request, "same-name");
  const before = await rows();
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
  expect(await rows()).toBe(before);
  const told = (await records(key.key_id)).map(({ outcome, detail }) => [outcome, detail.tenant]);
  expect(told.slice(2)).toEqual(
    ["acc-2", "acc-1", "acc-1", "acc-1"].map((tenant) => ["idempotency_conflict", tenant]),
  );
});

test("a quota counts the keys that are not destroyed, and 0 is none", async () => {
  const tenant = "acc-quota";
  const [{ key_id }] = [
    await vault.makeKey({ ...request, tenant }),
    await vault.makeKey({ ...request, tenant }),
  ];
  const beyond = (quota: number) =>
    vault.vault.journal.change(async (client) => ({ value: await exceedsQuota(client, tenant, quota) }));
  expect(await beyond(3)).toBeUndefined();
  expect(await beyond(2)).toMatchObject({ refused: "policy_violation" });
  expect(await beyond(0)).toBeUndefined();
  await vault.home.sql(
    "update keys set state = 'destroyed', disabled_at = now(), destroy_at = now() where key_id = $1",
    [key_id],
  );
  expect(await beyond(2)).toBeUndefined();
});

test("another tenant's key is looked for as one that is not there, also while it is remembered", async () => {
  const { key_id } = await vault.makeKey({ ...request, tenant: "acc-own" });
  const { database, store } = vault.vault;
  let queries = 0;
  const count = () => {
    queries += 1;
  };
  const costs = async (keyId: string, tenant: string): Promise<[number, boolean]> => {
    queries = 0;
    const found = await store.find(keyId, tenant);
    return [queries, found !== undefined];
  };
  database.on("query", count);
  try {
    await store.find(key_id, "acc-own");
    expect(await costs(key_id, "acc-own")).toEqual([0, true]);
    expect(await costs(key_id, "acc-other")).toEqual([1, false]);
    expect(await costs("f".repeat(32), "acc-other")).toEqual([1, false]);
  } finally {
    database.off("query", count);
  }
});

test("a key is remembered for a minute, and is then read anew: what became of its row shows", async () => {
  const { key_id } = await vault.makeKey({ ...request, tenant: "acc-minute" });
  const { store } = vault.vault;
  await store.find(key_id);
  await vault.home.sql("update keys set label = 'altered' where key_id = $1", [key_id]);
  expect(await store.find(key_id)).toMatchObject({ label: request.label });
  const now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now + 60_001);
  try {
    await sleep(10);
    await expect(store.find(key_id)).rejects.toMatchObject({ code: "key_damaged" });
  } finally {
    clock.mockRestore();
  }
});

test("one name asked for many times concurrently makes one key", async () => {
  const keys = await Promise.all(
    Array.from({ length: 16 }, () => vault.makeKey({ ...request, tenant: "acc-once" }, "at-once")),
  );
  expect(new Set(keys.map(({ key_id }) => key_id)).size).toBe(1);
  expect(await vault.home.sql("select from keys where tenant = 'acc-once'")).toHaveLength(1);
});

test("a tenant's first keys made concurrently share one data key, and all can be used", async () => {
  const keys = await Promise.all(
    Array.from({ length: 16 }, () => vault.makeKey({ ...request, tenant: "acc-race" })),
  );
  expect(await vault.home.sql("select from tenants where tenant = 'acc-race'")).toHaveLength(1);
  for (const { key_id, public_key } of keys) {
    const key = await vault.vault.store.find(key_id);
    expect(key?.publicKey).toEqual(public_key);
    expect(await vault.vault.custody.holds(key!)).toBe(true);
  }
});

test("every tenant has a data key of its own", async () => {
  await vault.makeKey({ ...request, tenant: "acc-a" });
  await vault.makeKey({ ...request, tenant: "acc-b" });
  const keys = await vault.home.sql<{ wrapped_data_key: Buffer }>("select wrapped_data_key from tenants");
  expect(new Set(keys.map(({ wrapped_data_key }) => wrapped_data_key.toString("hex"))).size).toBe(
    keys.length,
  );
});

test("keys are there after a restart, with the same answer to the same name", async () => {
  const key = await vault.makeKey(request, "before-restart");
  vault = await vault.restart();
  expect(await vault.makeKey(request, "before-restart")).toEqual(key);
  const found = await vault.vault.store.find(key.key_id);
  expect(found?.publicKey).toEqual(key.public_key);
  expect(await vault.vault.custody.holds(found!)).toBe(true);
});

test("a table dump holds no seed: rows differ from what the key is made of", async () => {
  const key = await vault.makeKey(request);
  const [row] = await vault.home.sql<{ wrapped_seeds: Buffer }>(
    "select wrapped_seeds from keys where key_id = $1",
    [key.key_id],
  );
  expect(row?.wrapped_seeds).toHaveLength(12 + 64 + 16);
});

test("what the database says of its failure is shown to no caller", async () => {
  const failing = available(() => Promise.reject(new Error("password of db.internal")));
  const error: Error = await failing.catch((reason: Error) => reason);
  expect(error).toMatchObject({ code: "unavailable", cause: { message: "password of db.internal" } });
  expect(error.message).not.toContain("internal");
});
