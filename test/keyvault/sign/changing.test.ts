import { afterAll, beforeAll, expect, test } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { createDelegationSigning } from "../../../keyvault/sign/delegation.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { API, startVaultWith, type TestVault } from "../fixture.ts";
import { delegationRequest } from "./delegation_request.ts";

let vault: TestVault;

const TENANT = "acc-1";
const ROUNDS = 4;
const MOST_ROUNDS = 40;
const AT_ONCE = 10;

beforeAll(async () => {
  vault = await startVaultWith({ KEYVAULT_RATE_PER_KEY: "0", KEYVAULT_RATE_PER_TENANT: "0" });
});
afterAll(() => vault.close());

const makeRoot = () => vault.makeKey({ tenant: TENANT, purpose: "account_root", label: "root" });
const delegate = (issuer: CreatedKey, agent: CreatedKey) =>
  createDelegationSigning({ ...vault.parts(), policy: vault.home.config.delegations })(
    API,
    issuer.key_id,
    delegationRequest(issuer, agent, vault.now()),
  );

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

/** Signs delegations with this key before and after the record of its change. Returns their outcomes. */
async function outcomes(change: string, keyId: string): Promise<{ before: string[]; after: string[] }> {
  const rows = await vault.home.sql<{ statement: string; outcome: string }>(
    `select statement, outcome from audit where statement in ($1, 'delegation')
       and (key_id = $2 or detail ->> 'subject_id' = $2) order by seq`,
    [change, keyId],
  );
  const changedAt = rows.findIndex(({ statement }) => statement === change);
  const told = rows.map(({ outcome }) => outcome);
  return { before: told.slice(0, changedAt), after: told.slice(changedAt + 1) };
}

test.each([
  ["disables the issuer", "key_disable", (issuer: CreatedKey) => vault.disable(issuer.key_id, TENANT)],
  [
    "narrows the subject's ceiling",
    "ceiling_shrink",
    (_: CreatedKey, agent: CreatedKey) => vault.shrink(agent.key_id, TENANT, []),
  ],
])("no delegation is granted after the record that %s", async (_, change, apply) => {
  for (let [round, later] = [0, 0]; round < ROUNDS || later === 0; round += 1) {
    expect(round).toBeLessThan(MOST_ROUNDS);
    const [issuer, agent] = [await makeRoot(), await vault.makeAgent(TENANT)];
    const delegating = Array.from({ length: AT_ONCE }, () => delegate(issuer, agent));
    await apply(issuer, agent);
    const granted = (await Promise.all(delegating)).filter((signed) => !isRefusal(signed));
    const { before, after } = await outcomes(change, (change === "key_disable" ? issuer : agent).key_id);
    expect(after).not.toContain("granted");
    expect(before.filter((outcome) => outcome === "granted")).toHaveLength(granted.length);
    later += after.length;
  }
});

test("no revocation list is granted after the record that disables its key", async () => {
  const { key_id } = await makeRoot();
  const { journal } = vault.vault;
  let disabled = false;
  const late: Journal = {
    ...journal,
    async change(apply) {
      if (!disabled) await vault.disable(key_id, TENANT);
      disabled = true;
      return journal.change(apply);
    },
  };
  const list = { tenant: TENANT, updated_at: vault.now(), revoked_certs: [], expires_at: [] };
  const signed = await createListSigning({ ...vault.parts(), journal: late })(API, key_id, list);
  expect(disabled).toBe(true);
  expect(signed).toMatchObject({ refused: "key_disabled" });
  const rows = await vault.home.sql(
    "select outcome from audit where key_id = $1 and statement = 'revocation_list'",
    [key_id],
  );
  expect(rows).toEqual([{ outcome: "key_disabled" }]);
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
