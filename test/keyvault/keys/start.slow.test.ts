import { afterAll, beforeAll, expect, test } from "vitest";
import { createSnapshots } from "../../../keyvault/audit/snapshots.ts";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../../keyvault/keys/change.ts";
import { createTenantDestruction } from "../../../keyvault/lifecycle/destroy_tenant.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

/*
 * Rows put back or altered while no vault runs, by somebody who leaves the audit as it is: what a start
 * believes of them.
 */

let vault: TestVault;
let tenants = 0;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const parts = () => ({ ...vault.vault, clock: vault.clock, accepts: () => true });
const makeKey = async (tenant: string) =>
  (
    await vault.makeKey({
      tenant,
      purpose: "agent",
      label: "agent",
      ceiling: ["data:read", "data:write"],
    })
  ).key_id;
const sign = (keyId: string, tenant: string) =>
  createChallengeSigning(parts())(API, keyId, {
    tenant,
    binding: {
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
  });

const CHANGES: Record<string, (keyId: string, tenant: string) => Promise<unknown>> = {
  "a key before it was disabled": (keyId, tenant) => createKeyDisabling(parts())(API, { keyId, tenant }),
  "a key before its ceiling shrank": (keyId, tenant) =>
    createCeilingShrinking(parts())(API, { keyId, tenant }, ["data:read"]),
  "a tenant before its destruction": async (_, tenant) => {
    for (const name of ["alice", "bob"]) {
      await createTenantDestruction(parts())({ role: "admin", name, certificate: name }, tenant, 7);
    }
  },
};

test.each(
  Object.entries(CHANGES).flatMap(([what, change]) => [
    [what, "the first record", change, false] as const,
    [what, "a snapshot", change, true] as const,
  ]),
)("%s, put back before a start from %s, is damaged", async (_, __, change, fromSnapshot) => {
  const tenant = `acc-${++tenants}`;
  const key = await makeKey(tenant);
  await vault.home.sql(
    `create table former_keys as select * from keys where tenant = '${tenant}';
     create table former_tenants as select * from tenants where tenant = '${tenant}'`,
  );
  await change(key, tenant);
  await vault.home.sql("delete from audit_register");
  if (fromSnapshot) await createSnapshots(vault.vault).save();
  await vault.stop();
  await vault.home.sql(
    `delete from keys where tenant = '${tenant}'; delete from tenants where tenant = '${tenant}';
     insert into tenants select * from former_tenants; insert into keys select * from former_keys;
     drop table former_keys, former_tenants`,
  );
  vault = await startVault(vault.home, vault.clock.at);
  await expect(sign(key, tenant)).rejects.toMatchObject({ code: "key_damaged" });
  expect((await vault.verifyAudit()).intact).toBe(true);
});

const WISH = `'{"action":"enable","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`;

test.each([
  ["wish", "keys", "pending", WISH],
  ["ceiling", "keys", "ceiling", `'["data:read"]'`],
  ["code", "keys", "state_mac", "NULL"],
  ["record's number", "keys", "state_seq", "state_seq + 1"],
  ["tenant's wish", "tenants", "pending", WISH],
  ["tenant's code", "tenants", "state_mac", "NULL"],
])("a vault whose service key has another %s does not open", async (_, table, column, value) => {
  await vault.stop();
  const where = "tenant = 'vault'";
  await vault.home.sql(
    `create table former as select * from ${table} where ${where};
     update ${table} set ${column} = ${value} where ${where}`,
  );
  await expect(startVault(vault.home)).rejects.toThrow("The vault's service key was altered");
  await vault.home.sql(
    `update ${table} set ${column} = (select ${column} from former) where ${where}; drop table former`,
  );
  vault = await startVault(vault.home);
  expect(vault.sealing.state()).toBeUndefined();
});
