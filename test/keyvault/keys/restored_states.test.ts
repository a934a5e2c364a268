import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createSnapshots } from "../../../keyvault/audit/snapshots.ts";
import { createKeyListing } from "../../../keyvault/keys/view.ts";
import {
  createTenantDestruction,
  createTenantDestructionCancelling,
} from "../../../keyvault/lifecycle/destroy.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { ADMIN, ADMINS, startVault, type TestVault } from "../fixture.ts";

/*
 * Somebody with the database role's rights restores an earlier, genuine state. If the audit record of the
 * change is altered too, only the complete chain reveals the attack.
 */

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const makeKey = async (tenant: string) => (await vault.makeAgent(tenant, ["data:read", "data:write"])).key_id;
const destroyTenant = async (tenant: string) => {
  for (const admin of ADMINS) await createTenantDestruction(vault.parts())(admin, tenant, 7);
};
const listed = async (tenant: string) => {
  const { keys } = await createKeyListing(vault.vault)({ tenant, limit: 500 });
  return keys.map(({ key_id, state, damaged }) => ({ key_id, state, damaged }));
};
const damaged = { code: "key_damaged" };

const KEY_STATE = "state, ceiling, pending, disabled_at, destroy_at, wrapped_seeds, state_seq, state_mac";
const TENANT_STATE = "state, pending, destroy_at, wrapped_data_key, state_seq, state_mac";

/** Runs `change`, restores the earlier state, alters the audit records of the change, and runs `then`. */
async function undone(
  table: "keys" | "tenants",
  id: string,
  change: () => Promise<unknown>,
  then: () => Promise<unknown> = async () => {},
): Promise<void> {
  const [name, columns] = table === "keys" ? ["key_id", KEY_STATE] : ["tenant", TENANT_STATE];
  const seq = vault.head();
  await vault.home.sql(`drop table if exists former; create table former as select * from ${table}`);
  await change();
  const last = vault.head();
  await vault.makeKey({ tenant: "later", purpose: "agent", label: "so that the chain's end stays" });
  await then();
  await vault.home.sql(
    `update ${table} set (${columns}) = (select ${columns} from former where former.${name} = ${table}.${name})
     where ${name} = '${id}';
     create table genuine as select * from audit where seq between ${seq + 1} and ${last};
     alter table audit disable trigger audit_append_only;
     update audit set statement = 'challenge' where seq between ${seq + 1} and ${last};
     alter table audit enable trigger audit_append_only`,
  );
  vault.vault.store.changed();
  vault.vault.dataKeys.clear();
}

/** Restores the audit's records, like an attacker who hides an attack. */
const putRecordsBack = () =>
  vault.home.sql(
    `create table if not exists genuine as select * from audit limit 0;
     alter table audit disable trigger audit_append_only;
     update audit set statement = genuine.statement from genuine where genuine.seq = audit.seq;
     alter table audit enable trigger audit_append_only;
     drop table genuine`,
  );
afterEach(putRecordsBack);

test("a disabled key set back to its earlier state neither signs nor changes, is listed as damaged, and its use is recorded", async () => {
  const key = await makeKey("acc-1");
  expect(await vault.answer(key, "acc-1")).toHaveProperty("challenge_sig");
  await undone("keys", key, () => vault.disable(key, "acc-1"));
  const seq = vault.head();
  await expect(vault.answer(key, "acc-1")).rejects.toMatchObject(damaged);
  await expect(vault.disable(key, "acc-1")).rejects.toMatchObject(damaged);
  expect(await listed("acc-1")).toEqual([{ key_id: key, state: "active", damaged: true }]);
  expect(await vault.recordsAfter(seq)).toEqual([
    { statement: "challenge", outcome: "failed" },
    { statement: "key_disable", outcome: "failed" },
  ]);
});

test("a key set back to a state from before a restart is damaged too", async () => {
  const key = await makeKey("acc-2");
  const restart = async () => {
    vault = await vault.restart();
    expect(await vault.answer(key, "acc-2")).toMatchObject({ refused: "key_disabled" });
  };
  await undone("keys", key, () => vault.disable(key, "acc-2"), restart);
  await expect(vault.answer(key, "acc-2")).rejects.toMatchObject(damaged);
});

test("a destroyed tenant set back to its earlier state cannot sign, get a key or be destroyed", async () => {
  const key = await makeKey("acc-3");
  await undone("tenants", "acc-3", () => destroyTenant("acc-3"));
  await expect(vault.answer(key, "acc-3")).rejects.toMatchObject(damaged);
  await expect(makeKey("acc-3")).rejects.toMatchObject(damaged);
  await expect(createTenantDestruction(vault.parts())(ADMIN, "acc-3", 7)).rejects.toMatchObject(damaged);
  expect((await listed("acc-3")).map((one) => one.damaged)).toEqual([true]);
});

test("a destruction that was cancelled and then restored in the database is not carried out", async () => {
  const key = await makeKey("acc-4");
  await destroyTenant("acc-4");
  await undone("tenants", "acc-4", () => createTenantDestructionCancelling(vault.parts())(ADMIN, "acc-4"));
  vault.clock.move(8 * 86_400);
  expect((await createErasing(vault.parts())()).tenants).toBe(0);
  await expect(vault.answer(key, "acc-4")).rejects.toMatchObject(damaged);
  const rows = await vault.home.sql(
    "select from tenants where tenant = 'acc-4' and octet_length(wrapped_data_key) > 0",
  );
  expect(rows).toHaveLength(1);
});

test("a restored state is detected after a lost database connection", async () => {
  const key = await makeKey("acc-5");
  await undone("keys", key, () => vault.disable(key, "acc-5"));
  await vault.home.sql(
    `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'
       and database = (select oid from pg_database where datname = current_database())`,
  );
  await expect.poll(() => vault.vault.journal.probe().then(() => "open", String)).toBe("open");
  await expect(vault.answer(key, "acc-5")).rejects.toMatchObject(damaged);
  expect(await vault.answer(await makeKey("acc-5"), "acc-5")).toHaveProperty("challenge_sig");
});

test("a restarted vault stays sealed with altered records, and with genuine records it reports the key as damaged", async () => {
  const key = await makeKey("acc-7");
  await undone("keys", key, () => vault.disable(key, "acc-7"));
  vault = await vault.restart();
  expect(vault.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await vault.stop();
  await putRecordsBack();
  vault = await startVault(vault.home);
  await expect(vault.answer(key, "acc-7")).rejects.toMatchObject(damaged);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test.each([
  ["the first record", false],
  ["a snapshot", true],
])(
  "keys and tenants that are set back while no vault runs are damaged after a startup from %s",
  async (start, isSnapshot) => {
    const tenants = ["disabled", "shrunk", "ended"].map((what) => `${what} before ${start}`);
    const [disabled = "", shrunk = "", ended = ""] = tenants;
    const keys = await Promise.all(tenants.map(makeKey));
    await vault.home.sql(
      `create table former_keys as select * from keys where tenant like '%before ${start}';
     create table former_tenants as select * from tenants where tenant like '%before ${start}'`,
    );
    await vault.disable(keys[0] ?? "", disabled);
    await vault.shrink(keys[1] ?? "", shrunk, ["data:read"]);
    await destroyTenant(ended);
    await vault.home.sql("delete from audit_register");
    if (isSnapshot) await createSnapshots(vault.vault).save();
    await vault.stop();
    await vault.home.sql(
      `delete from keys where tenant like '%before ${start}'; delete from tenants where tenant like '%before ${start}';
     insert into tenants select * from former_tenants; insert into keys select * from former_keys;
     drop table former_keys, former_tenants`,
    );
    vault = await startVault(vault.home, vault.clock.at);
    for (const [index, tenant] of tenants.entries()) {
      await expect(vault.answer(keys[index] ?? "", tenant), tenant).rejects.toMatchObject(damaged);
    }
    expect((await vault.verifyAudit()).intact).toBe(true);
  },
);

const WISH = `'{"action":"enable","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`;

test("a vault does not open with an altered service key", async () => {
  const lies = [
    ["keys", "pending", WISH],
    ["keys", "ceiling", `'["data:read"]'`],
    ["keys", "state_mac", "NULL"],
    ["keys", "state_seq", "state_seq + 1"],
    ["tenants", "pending", WISH],
    ["tenants", "state_mac", "NULL"],
  ];
  for (const [table, column, value] of lies) {
    await vault.home.sql(
      `create table genuine_row as select * from ${table} where tenant = 'vault';
       update ${table} set ${column} = ${value} where tenant = 'vault'`,
    );
    await expect(vault.vault.service.read(), `${table}.${column}`).rejects.toMatchObject(damaged);
    if (column === "state_seq") {
      await vault.stop();
      await expect(startVault(vault.home)).rejects.toThrow("The vault's service key was altered");
    }
    await vault.home.sql(
      `update ${table} set ${column} = (select ${column} from genuine_row) where tenant = 'vault';
       drop table genuine_row`,
    );
    if (column === "state_seq") vault = await startVault(vault.home);
  }
  expect(vault.sealing.state()).toBeUndefined();
  await vault.vault.service.read();
});
