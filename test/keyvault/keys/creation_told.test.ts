import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { type CreateKeyParts, createKeyCreation } from "../../../keyvault/keys/create.ts";
import { createCustody } from "../../../keyvault/keys/custody.ts";
import type { KeyRequest } from "../../../keyvault/keys/new_key.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

/* What is not made is on record all the same. */

let vault: TestVault;
let told: Partial<AuditEntry>[];

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());
beforeEach(async () => {
  told = [];
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] });
});

const note = ({ caller, statement, outcome, detail }: AuditEntry) =>
  void told.push({ caller, statement, outcome, ...(detail && { detail }) });

/** Asks for a key of a tenant, with some other parts than the vault's own. */
function ask(other: Partial<CreateKeyParts>) {
  const { journal } = vault.vault;
  const create = createKeyCreation({
    ...vault.vault,
    ...{ keysPerTenant: 0, clock: vault.clock, service: undefined },
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
  const request: KeyRequest = { tenant: "acc-1", purpose: "agent", label: "more", ceiling: [] };
  return create(API, `told:${Math.random()}`, request);
}

const entry = (outcome: string) => ({
  ...{ caller: API, statement: "key_create", outcome, detail: { tenant: "acc-1" } },
});
const set = (change: string) => vault.home.sql(`update tenants set ${change} where tenant = 'acc-1'`);

test("a key beyond the tenant's quota", async () => {
  expect(await ask({ keysPerTenant: 1 })).toMatchObject({ refused: "policy_violation" });
  expect(told).toEqual([entry("policy_violation")]);
});

test("a key of a tenant whose row was altered, before or while it is made", async () => {
  const { dataKeys } = vault.vault;
  await set("state = 'destroying', destroy_at = now()");
  await expect(ask({})).rejects.toMatchObject({ code: "key_damaged" });
  expect(told).toEqual([entry("failed")]);
  await set("state = 'active', destroy_at = NULL");
  told = [];
  const meanwhile: typeof dataKeys = {
    ...dataKeys,
    async use(wrapped, work) {
      await set("state = 'destroying', destroy_at = now()");
      return dataKeys.use(wrapped, work);
    },
  };
  const custody = createCustody(meanwhile);
  await expect(ask({ custody })).rejects.toMatchObject({ code: "key_damaged" });
  expect(told).toMatchObject([entry("failed")]);
  await set("state = 'active', destroy_at = NULL");
});

test("a key of a tenant that is to end", async () => {
  const ending = {
    check: async () => [true],
    now: () => 0,
  } as unknown as CreateKeyParts["rowCodes"];
  await set("state = 'destroying', destroy_at = now()");
  expect(await ask({ rowCodes: ending })).toMatchObject({ refused: "policy_violation" });
  expect(told).toEqual([entry("policy_violation")]);
  await set("state = 'active', destroy_at = NULL");
});
