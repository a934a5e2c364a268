import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../../keyvault/keys/change.ts";
import { createKeyStore } from "../../../keyvault/keys/store.ts";
import { createKeyListing } from "../../../keyvault/keys/view.ts";
import {
  createTenantDestruction,
  createTenantDestructionCancelling,
} from "../../../keyvault/lifecycle/destroy_tenant.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { ADMIN, API, startVault, type TestVault } from "../fixture.ts";

/*
 * An earlier, genuine state put back by somebody with the database's rights who alters the audit record of
 * the change as well: nothing in the database shows it any more but the whole chain. The vault goes by the
 * records that it verified and wrote itself.
 */

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const parts = () => ({ ...vault.vault, clock: vault.clock, accepts: () => true });
const makeKey = async (tenant: string) =>
  (await vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: ["data:read", "data:write"] }))
    .key_id;
const disable = (keyId: string, tenant: string) => createKeyDisabling(parts())(API, { keyId, tenant });
const destroyTenant = async (tenant: string) => {
  const destroy = createTenantDestruction(parts());
  for (const name of ["alice", "bob"]) await destroy({ role: "admin", name, certificate: name }, tenant, 7);
};
const sign = (keyId: string, tenant: string) =>
  createChallengeSigning(parts())(API, keyId, {
    tenant,
    binding: {
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
  });
const listed = async (tenant: string) => {
  const { keys } = await createKeyListing(vault.vault)({ tenant, limit: 500 });
  return keys.map(({ key_id, state, damaged }) => ({ key_id, state, damaged }));
};
const damaged = { code: "key_damaged" };

const KEY_STATE = "state, ceiling, pending, disabled_at, destroy_at, wrapped_seeds, state_seq, state_mac";
const TENANT_STATE = "state, pending, destroy_at, wrapped_data_key, state_seq, state_mac";

/**
 * Runs `change` and `then`, puts the state from before back, and makes the change's audit records speak of
 * something else.
 */
async function undone(
  table: "keys" | "tenants",
  id: string,
  change: () => Promise<unknown>,
  then: () => Promise<unknown> = async () => {},
): Promise<void> {
  const [name, columns] = table === "keys" ? ["key_id", KEY_STATE] : ["tenant", TENANT_STATE];
  const { seq } = vault.vault.journal.head();
  await vault.home.sql(`drop table if exists former; create table former as select * from ${table}`);
  await change();
  const last = vault.vault.journal.head().seq;
  await vault.makeKey({ tenant: "later", purpose: "agent", label: "so that the chain's end stays" });
  await then();
  await vault.home.sql(
    `update ${table} set (${columns}) = (select ${columns} from former where former.${name} = ${table}.${name})
     where ${name} = '${id}'`,
  );
  await vault.home.sql(
    `create table genuine as select * from audit where seq between ${seq + 1} and ${last};
     alter table audit disable trigger audit_append_only;
     update audit set statement = 'challenge' where seq between ${seq + 1} and ${last};
     alter table audit enable trigger audit_append_only`,
  );
  vault.vault.store.changed();
  vault.vault.dataKeys.clear();
}

/** Puts the audit's own records back, as an attacker who hides an attack does. */
const putRecordsBack = () =>
  vault.home.sql(
    `create table if not exists genuine as select * from audit limit 0;
     alter table audit disable trigger audit_append_only;
     update audit set statement = genuine.statement from genuine where genuine.seq = audit.seq;
     alter table audit enable trigger audit_append_only;
     drop table genuine`,
  );
afterEach(putRecordsBack);

test("a disabled key put back neither signs nor changes, is listed as damaged, and its use is on record", async () => {
  const key = await makeKey("acc-1");
  expect(await sign(key, "acc-1")).toHaveProperty("challenge_sig");
  await undone("keys", key, () => disable(key, "acc-1"));
  const { seq } = vault.vault.journal.head();
  await expect(sign(key, "acc-1")).rejects.toMatchObject(damaged);
  await expect(disable(key, "acc-1")).rejects.toMatchObject(damaged);
  expect(await listed("acc-1")).toEqual([{ key_id: key, state: "active", damaged: true }]);
  const records = await vault.home.sql(
    "select statement, outcome from audit where seq > $1 and key_id = $2 order by seq",
    [seq, key],
  );
  expect(records).toEqual([
    { statement: "challenge", outcome: "failed" },
    { statement: "key_disable", outcome: "failed" },
  ]);
});

test("a later state that an earlier process wrote counts as well", async () => {
  const key = await makeKey("acc-2");
  await undone(
    "keys",
    key,
    () => disable(key, "acc-2"),
    async () => {
      vault = await vault.restart();
      expect(await sign(key, "acc-2")).toMatchObject({ refused: "key_disabled" });
    },
  );
  await expect(sign(key, "acc-2")).rejects.toMatchObject(damaged);
});

test("a tenant put back after its destruction neither signs, nor gets a key, nor ends, nor is brought back", async () => {
  const key = await makeKey("acc-3");
  await undone("tenants", "acc-3", () => destroyTenant("acc-3"));
  await expect(sign(key, "acc-3")).rejects.toMatchObject(damaged);
  await expect(makeKey("acc-3")).rejects.toMatchObject(damaged);
  await expect(createTenantDestruction(parts())(ADMIN, "acc-3", 7)).rejects.toMatchObject(damaged);
  expect((await listed("acc-3")).map((one) => one.damaged)).toEqual([true]);
});

test("a destruction that was taken back is not carried out when its state is put back", async () => {
  const key = await makeKey("acc-4");
  await destroyTenant("acc-4");
  await undone("tenants", "acc-4", () => createTenantDestructionCancelling(parts())(ADMIN, "acc-4"));
  vault.clock.move(8 * 86_400);
  expect((await createErasing(parts())()).tenants).toBe(0);
  await expect(sign(key, "acc-4")).rejects.toMatchObject(damaged);
  const [row] = await vault.home.sql<{ size: number }>(
    "select octet_length(wrapped_data_key) as size from tenants where tenant = 'acc-4'",
  );
  expect(row?.size).toBeGreaterThan(0);
});

test("it is remembered across a lost connection to the database", async () => {
  const key = await makeKey("acc-5");
  await undone("keys", key, () => disable(key, "acc-5"));
  await vault.home.sql(
    `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'
       and database = (select oid from pg_database where datname = current_database())`,
  );
  await expect.poll(() => vault.vault.journal.probe().then(() => "open", String)).toBe("open");
  await expect(sign(key, "acc-5")).rejects.toMatchObject(damaged);
  expect(await sign(await makeKey("acc-5"), "acc-5")).toHaveProperty("challenge_sig");
});

test("a key read while it changes is read again, and not called damaged", async () => {
  const key = await makeKey("acc-6");
  const { database, rowCodes, store } = vault.vault;
  const serviceId = (await store.read(key))?.key.attestation.attested_by ?? "";
  const service = (await store.find(serviceId))?.publicKey;
  if (service === undefined) throw new Error("There is no service key");
  const shrink = createCeilingShrinking(parts());
  const ceilings = [["data:read", "data:write"], ["data:read"], []];
  const hasty = {
    ...rowCodes,
    async check(rows: Parameters<typeof rowCodes.check>[0]) {
      const next = ceilings.shift();
      if (next !== undefined) await shrink(API, { keyId: key, tenant: "acc-6" }, next);
      return rowCodes.check(rows);
    },
  };
  const late = createKeyStore(database, hasty, () => service);
  expect((await late.find(key))?.ceiling).toEqual([]);
  expect(ceilings).toEqual([]);
});

test("a vault that starts anew does not open on the altered records; with the genuine ones back, the key is damaged", async () => {
  const key = await makeKey("acc-7");
  await undone("keys", key, () => disable(key, "acc-7"));
  await expect(sign(key, "acc-7")).rejects.toMatchObject(damaged);
  await vault.stop();
  vault = await startVault(vault.home);
  expect(vault.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await vault.stop();
  await putRecordsBack();
  vault = await startVault(vault.home);
  await expect(sign(key, "acc-7")).rejects.toMatchObject(damaged);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test.each([
  ["wish", `pending = '{"action":"destroy","days":7,"admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`],
  ["destruction", "state = 'destroying', destroy_at = '2020-01-01T00:00:00Z'"],
])(
  "a tenant with a %s that the vault never gave it neither signs, nor gets a key, nor is ended",
  async (what, change) => {
    const tenant = `acc-${what}`;
    const key = await makeKey(tenant);
    await vault.home.sql(`update tenants set ${change} where tenant = $1`, [tenant]);
    vault.vault.store.changed();
    await expect(sign(key, tenant)).rejects.toMatchObject(damaged);
    await expect(makeKey(tenant)).rejects.toMatchObject(damaged);
    await expect(createTenantDestruction(parts())(ADMIN, tenant, 7)).rejects.toMatchObject(damaged);
  },
);
