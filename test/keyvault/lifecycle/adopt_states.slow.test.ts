import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import { migrate } from "../../../keyvault/db/migrate.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createAdoption } from "../../../keyvault/lifecycle/adopt_states.ts";
import { adoptedRows, earlierRows, machineOfLevel } from "../backup/earlier_support.ts";
import { codeOf, issueAdmins, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";
import type { Client } from "../http/caller_support.ts";

/* An upgraded vault whose earlier version stored states without an authentication code (MAC). */

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const WITHOUT_CODES = 2;
const WITH_CODES = 7;

let home: VaultHome;
let vault: TestVault;
let admins: Client[];
let one: CreatedKey;
let other: CreatedKey;

beforeAll(async () => {
  const newer = await startVault();
  [one, other] = [await newer.makeAgent("acc-1"), await newer.makeAgent("acc-1")];
  home = await machineOfLevel(newer, await earlierRows(newer, WITHOUT_CODES), WITHOUT_CODES);
  await newer.close();
  await migrate(home.config, SILENT);
  vault = await startVault(home);
  admins = await issueAdmins(home, "alice", "bob");
});
afterAll(() => vault.close());

const adopt = async (client: Client | undefined) => (await vault.post("/v1/states/adopt", {}, client)).body;
const sign = async (key: CreatedKey) => codeOf(await vault.sign(key.key_id));
const create = async () => {
  const body = { tenant: "acc-1", purpose: "agent", label: "new", ceiling: [] };
  const headers = { "idempotency-key": "made-while-it-waits" };
  return codeOf(await vault.post("/v1/keys", body, vault.api, headers));
};
const seal = (text: string) => home.sql(`update keys set ${text} where key_id = '${one.key_id}'`);

test("before its adoption, a key without a code neither signs nor changes, and its tenant gets no new key", async () => {
  expect(await sign(one)).toBe("key_damaged");
  const disabling = await vault.post(`/v1/keys/${one.key_id}/disable`, { tenant: "acc-1" });
  expect(codeOf(disabling)).toBe("key_damaged");
  expect(await create()).toBe("key_damaged");
  vault = await vault.restart();
  expect(await sign(one)).toBe("key_damaged");
});

test("an adoption needs two admins and unaltered rows", async () => {
  expect((await adopt(vault.api)).error).toMatchObject({ code: "forbidden" });
  const asked = await adopt(admins[0]);
  expect(asked).toMatchObject({ adopted: false, keys: 3, tenants: 2, pending: { admin: "alice" } });
  expect((await adopt(admins[0])).error).toMatchObject({ code: "policy_violation" });
  const told = "select caller, outcome from audit where statement = 'state_adopt' order by seq desc limit 1";
  expect(await home.sql(told)).toEqual([{ caller: "alice", outcome: "policy_violation" }]);
  await seal(`ceiling = '["payments:send"]'`);
  expect(await adopt(admins[1])).toMatchObject({ adopted: false, pending: { admin: "bob" } });
  expect(await sign(one)).toBe("key_damaged");
  await seal(`ceiling = '["data:read"]'`);
});

test("an adoption skips a row that is altered after the second admin's approval", async () => {
  await adopt(admins[0]);
  const { journal } = vault.vault;
  let turns = 0;
  const hasty: Journal = {
    ...journal,
    async change(apply) {
      const value = await journal.change(apply);
      turns += 1;
      if (turns === 1) await seal(`ceiling = '["payments:send"]'`);
      return value;
    },
  };
  const adoptHastily = createAdoption({ ...vault.parts(), journal: hasty });
  expect(await adoptHastily({ role: "admin", name: "bob" })).toMatchObject({ adopted: true });
  expect([await sign(one), await sign(other)]).toEqual(["key_damaged", 200]);
  await seal(`ceiling = '["data:read"]'`);
});

test("an adoption that is approved after a restart lists every row in its records, and all keys sign afterwards", async () => {
  const asked = await adopt(admins[0]);
  vault = await vault.restart();
  expect(await adopt(admins[1])).toMatchObject({ adopted: true, keys: 1, tenants: 0, rows: asked.rows });
  expect([await sign(one), await sign(other), await create()]).toEqual([200, 200, 200]);
  const records = await home.sql<{ caller: string; detail: Record<string, string> }>(
    "select caller, detail from audit where statement = 'state_adopt' and detail ->> 'step' = 'done' order by seq",
  );
  expect(records).toMatchObject([
    { caller: "bob", detail: { rows: "4" } },
    { caller: "bob", detail: { rows: "1" } },
  ]);
  expect(records[0]?.detail.keys).toContain(`${other.key_id}=`);
  expect(records[0]?.detail.tenants?.replace(/=[0-9a-f]{64}/g, "")).toBe("acc-1,vault");
  expect(records[1]?.detail.keys).toMatch(new RegExp(`^${one.key_id}=[0-9a-f]{64}$`));
  vault = await vault.restart();
  expect(await sign(one)).toBe(200);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("a row that lost its code is not adopted", async () => {
  const [row] = await home.sql<{ state_seq: number; state_mac: Buffer }>(
    "select state_seq::int, state_mac from keys where key_id = $1",
    [one.key_id],
  );
  await seal("state_seq = NULL, state_mac = NULL");
  vault = await vault.restart();
  expect((await adopt(admins[0])).error).toMatchObject({
    code: "policy_violation",
    message: "No row waits for adoption",
  });
  expect(await sign(one)).toBe("key_damaged");
  await home.sql("update keys set state_seq = $1, state_mac = $2 where key_id = $3", [
    row?.state_seq,
    row?.state_mac,
    one.key_id,
  ]);
  vault.vault.store.changed();
  expect(await sign(one)).toBe(200);
});

test("rows that an earlier version adopted automatically stay valid, except those that lost their code later", async () => {
  const newer = await startVault();
  const { key_id } = await newer.makeAgent("acc-1");
  const earlier = await machineOfLevel(newer, await adoptedRows(newer, WITH_CODES), WITH_CODES);
  await newer.close();
  await migrate(earlier.config, SILENT);
  const upgraded = await startVault(earlier);
  try {
    expect(await upgraded.vault.store.find(key_id)).toMatchObject({ state: "active" });
    await earlier.sql("update keys set state_seq = null, state_mac = null where key_id = $1", [key_id]);
    upgraded.vault.store.changed();
    await expect(upgraded.vault.store.find(key_id)).rejects.toMatchObject({ code: "key_damaged" });
    for (const admin of admins) {
      expect((await upgraded.post("/v1/states/adopt", {}, admin)).status).not.toBe(200);
    }
  } finally {
    await upgraded.close();
  }
});
