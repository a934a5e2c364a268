import { afterAll, beforeAll, expect, test } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createTenantDestruction } from "../../../keyvault/lifecycle/destroy.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { createDelegationSigning } from "../../../keyvault/sign/delegation.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { ADMINS, API, startVaultWith, type TestVault } from "../fixture.ts";
import { delegationRequest } from "./delegation_request.ts";

let vault: TestVault;
let tenants = 1;

const TENANT = "acc-1";

beforeAll(async () => {
  vault = await startVaultWith({ KEYVAULT_RATE_PER_KEY: "0", KEYVAULT_RATE_PER_TENANT: "0" });
});
afterAll(() => vault.close());

test("many changes of other keys do not delay a signature", async () => {
  const [agent, other] = [await vault.makeAgent(TENANT), await vault.makeAgent(TENANT)];
  let storm = true;
  const shrinking = Array.from({ length: 16 }, async () => {
    while (storm) await vault.shrink(other.key_id, TENANT, ["data:read"]);
  });
  for (let signed = 0; signed < 20; signed += 1) {
    expect(await vault.answer(agent.key_id)).toHaveProperty("challenge_sig");
  }
  storm = false;
  await Promise.all(shrinking);
});

type Signers = { tenant: string; issuer: CreatedKey; agent: CreatedKey };
type Parts = ReturnType<TestVault["parts"]>;

/** Returns the vault's parts. `change` runs before the first signed statement is recorded. */
function changingWhileDeciding(change: () => Promise<unknown>): Parts {
  const parts = vault.parts();
  const { journal } = parts;
  let changed = false;
  const first = async () => {
    if (!changed) await change();
    changed = true;
  };
  return {
    ...parts,
    journal: {
      ...journal,
      async record(entry, stillTrue) {
        if (entry.outcome === "granted") await first();
        return journal.record(entry, stillTrue);
      },
      async change(apply) {
        await first();
        return journal.change(apply);
      },
    },
  };
}

const STATEMENTS = {
  challenge(parts: Parts, { tenant, agent }: Signers) {
    const { tenant: _, ...binding } = vault.challenge(tenant);
    return createChallengeSigning(parts)(API, agent.key_id, { tenant, binding });
  },
  delegation(parts: Parts, { tenant, issuer, agent }: Signers) {
    const request = delegationRequest(issuer, agent, vault.now(), { tenant });
    const policy = vault.home.config.delegations;
    return createDelegationSigning({ ...parts, policy })(API, issuer.key_id, request);
  },
  revocation_list(parts: Parts, { tenant, issuer }: Signers) {
    const list = { tenant, updated_at: vault.now(), revoked_certs: [], expires_at: [] };
    return createListSigning(parts)(API, issuer.key_id, list);
  },
};

const CHANGES = {
  "its key was disabled": ({ issuer, agent, tenant }: Signers) =>
    Promise.all([issuer, agent].map(({ key_id }) => vault.disable(key_id, tenant))),
  "its issuer was disabled": ({ issuer, tenant }: Signers) => vault.disable(issuer.key_id, tenant),
  "its subject was disabled": ({ agent, tenant }: Signers) => vault.disable(agent.key_id, tenant),
  "its issuer's ceiling was narrowed": ({ issuer, tenant }: Signers) =>
    vault.shrink(issuer.key_id, tenant, []),
  "its subject's ceiling was narrowed": ({ agent, tenant }: Signers) =>
    vault.shrink(agent.key_id, tenant, []),
  async "its tenant was destroyed"({ tenant }: Signers) {
    const destroy = createTenantDestruction(vault.parts());
    for (const admin of ADMINS) await destroy(admin, tenant, 7);
  },
};

test.each<[keyof typeof STATEMENTS, keyof typeof CHANGES, string]>([
  ["challenge", "its key was disabled", "key_disabled"],
  ["challenge", "its tenant was destroyed", "key_disabled"],
  ["delegation", "its issuer was disabled", "key_disabled"],
  ["delegation", "its subject was disabled", "key_disabled"],
  ["delegation", "its issuer's ceiling was narrowed", "policy_violation"],
  ["delegation", "its subject's ceiling was narrowed", "policy_violation"],
  ["delegation", "its tenant was destroyed", "key_disabled"],
  ["revocation_list", "its key was disabled", "key_disabled"],
  ["revocation_list", "its tenant was destroyed", "key_disabled"],
])("the vault does not release a %s if %s while the vault decided", async (statement, change, refused) => {
  const tenant = `acc-${++tenants}`;
  const issuer = await vault.makeKey({ tenant, purpose: "account_root", label: "root" });
  const signers = { tenant, issuer, agent: await vault.makeAgent(tenant) };
  const seq = vault.head();
  const parts = changingWhileDeciding(() => CHANGES[change](signers));
  expect(await STATEMENTS[statement](parts, signers)).toMatchObject({ refused });
  const records = await vault.recordsAfter(seq);
  expect(records.filter((record) => record.statement === statement)).toEqual([
    { statement, outcome: refused },
  ]);
});

test("signing gives up after five changes of the key, and records the failure", async () => {
  const { key_id } = await vault.makeAgent(TENANT);
  const { journal, store } = vault.vault;
  let tries = 0;
  const restless: Journal = {
    ...journal,
    record(entry, stillTrue) {
      if (entry.outcome === "granted") {
        tries += 1;
        store.changed(key_id);
      }
      return journal.record(entry, stillTrue);
    },
  };
  const { tenant, ...binding } = vault.challenge(TENANT);
  const signing = createChallengeSigning({ ...vault.parts(), journal: restless });
  const seq = vault.head();
  await expect(signing(API, key_id, { tenant, binding })).rejects.toMatchObject({ code: "unavailable" });
  expect(tries).toBe(5);
  expect(await vault.recordsAfter(seq)).toEqual([{ statement: "challenge", outcome: "failed" }]);
  expect(await vault.answer(key_id)).toHaveProperty("challenge_sig");
});
