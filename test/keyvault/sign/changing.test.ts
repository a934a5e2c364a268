import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../../keyvault/keys/change.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { createDelegationSigning } from "../../../keyvault/sign/delegation.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { API, createHome, startVault, type TestVault } from "../fixture.ts";
import { certificateFields } from "./certificate_fields.ts";

let vault: TestVault;
let root: CreatedKey;

const TENANT = "acc-1";
const ROUNDS = 8;
const AT_ONCE = 10;

beforeAll(async () => {
  const home = await createHome();
  home.config = { ...home.config, signingRates: { perKey: 0, perTenant: 0 } };
  vault = await startVault(home);
  root = await vault.makeKey({ tenant: TENANT, purpose: "account_root", label: "root" });
});
afterAll(() => vault.close());

const now = () => unixSeconds(vault.clock.now());
const parts = (journal: Journal = vault.vault.journal) => ({ ...vault.vault, journal, clock: vault.clock });
const makeAgent = () =>
  vault.makeKey({ tenant: TENANT, purpose: "agent", label: "agent", ceiling: ["data:read"] });
const answer = (keyId: string, journal?: Journal) =>
  createChallengeSigning(parts(journal))(API, keyId, {
    tenant: TENANT,
    binding: { challenge: Buffer.alloc(32, 1).toString("base64"), challenge_at: now() },
  });
const delegateTo = (agent: CreatedKey) =>
  createDelegationSigning({ ...parts(), policy: { ceiling: undefined, externalSubjects: false } })(
    API,
    root.key_id,
    {
      tenant: TENANT,
      certificate: {
        ...certificateFields(root, agent, now()),
        cert_id: `cert-${randomUUID()}`,
      },
      approval: { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1" },
    },
  );
const shrink = (keyId: string, ceiling: string[]) =>
  createCeilingShrinking(parts())(API, { keyId, tenant: TENANT }, ceiling);

/** Outcomes of the `statement`s that name the key, after the record of its change. */
async function outcomesAfter(change: string, keyId: string, statement: string): Promise<string[]> {
  const rows = await vault.home.sql<{ outcome: string }>(
    `select outcome from audit where statement = $3 and detail::text like '%' || $2 || '%'
       and seq > (select max(seq) from audit where statement = $1 and key_id = $2)`,
    [change, keyId, statement],
  );
  return rows.map(({ outcome }) => outcome);
}

test("changes of other keys, however many, hold no signature up", async () => {
  const [agent, other] = [await makeAgent(), await makeAgent()];
  let storm = true;
  const shrinking = Array.from({ length: 16 }, async () => {
    while (storm) await shrink(other.key_id, ["data:read"]);
  });
  for (let signed = 0; signed < 20; signed += 1) {
    expect(await answer(agent.key_id)).toHaveProperty("challenge_sig");
  }
  storm = false;
  await Promise.all(shrinking);
});

test("no delegation is granted after the record that its subject's ceiling shrank below it", async () => {
  let later = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const agent = await makeAgent();
    const delegating = Array.from({ length: AT_ONCE }, () => delegateTo(agent));
    await Promise.all([...delegating, shrink(agent.key_id, [])]);
    const outcomes = await outcomesAfter("ceiling_shrink", agent.key_id, "delegation");
    expect(outcomes).not.toContain("granted");
    later += outcomes.length;
  }
  expect(later).toBeGreaterThan(0);
});

test("no revocation list is granted after the record that its key was disabled", async () => {
  const { key_id } = await vault.makeKey({
    tenant: TENANT,
    purpose: "account_root",
    label: "to be disabled",
  });
  const { journal } = vault.vault;
  let disabled = false;
  const late: Journal = {
    ...journal,
    async change(apply) {
      if (!disabled) await createKeyDisabling(parts())(API, { keyId: key_id, tenant: TENANT });
      disabled = true;
      return journal.change(apply);
    },
  };
  const list = { tenant: TENANT, updated_at: now(), revoked_certs: [], expires_at: [] };
  const signed = await createListSigning(parts(late))(API, key_id, list);
  expect(disabled).toBe(true);
  expect(signed).toMatchObject({ refused: "key_disabled" });
  const outcomes = await vault.home.sql(
    "select outcome from audit where key_id = $1 and statement = 'revocation_list'",
    [key_id],
  );
  expect(outcomes).toEqual([{ outcome: "key_disabled" }]);
});

test("a key that changes under each try is given up after five, on record as failed", async () => {
  const { key_id } = await makeAgent();
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
  await expect(answer(key_id, restless)).rejects.toMatchObject({ code: "unavailable" });
  expect(tries).toBe(5);
  const rows = await vault.home.sql(
    "select statement, outcome from audit where key_id = $1 order by seq desc limit 2",
    [key_id],
  );
  expect(rows).toEqual([
    { statement: "challenge", outcome: "failed" },
    { statement: "key_create", outcome: "granted" },
  ]);
  expect(await answer(key_id)).toHaveProperty("challenge_sig");
});
