import { afterAll, beforeAll, expect, test } from "vitest";
import type { Database } from "../../../keyvault/db/database.ts";
import { createKeyDestruction, createTenantDestruction } from "../../../keyvault/lifecycle/destroy.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { ADMINS, codeOf, issueIdentity, startVault, type TestVault } from "../fixture.ts";
import type { Client } from "../http/caller_support.ts";
import { delegationRequest } from "../sign/delegation_request.ts";

let vault: TestVault;
let alice: Client;
let bob: Client;

beforeAll(async () => {
  vault = await startVault();
  const year = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3e10) };
  alice = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "alice" }, year);
  bob = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "bob" }, year);
});
afterAll(() => vault.close());

const DAY = 86_400;
const WEEK = { after_days: 7 };
const makeKey = async (tenant = "acc-1") => (await vault.makeAgent(tenant)).key_id;
const post = (client: Client, path: string, body: unknown = {}) => vault.post(path, body, client);
const disable = (key: string, tenant = "acc-1") => vault.post(`/v1/keys/${key}/disable`, { tenant });
const sign = async (key: string, tenant = "acc-1") => codeOf(await vault.sign(key, tenant));
const eraseDue = () => createErasing(vault.parts())();

/** Requests the change as Alice and then as Bob. Returns the response to Bob. */
async function both(path: string, body: object = {}) {
  await post(alice, path, body);
  return post(bob, path, body);
}
const destroyKey = (key: string) => both(`/v1/keys/${key}/destroy`, WEEK);
const destroyTenant = (tenant: string) => both(`/v1/tenants/${tenant}/destroy`, WEEK);

test("a key that two admins destroy stops signing immediately and loses its seeds after the waiting period", async () => {
  const key = await makeKey();
  const destroy = (client: Client, after_days = 7) => post(client, `/v1/keys/${key}/destroy`, { after_days });
  for (const days of [6, 31]) expect(codeOf(await destroy(alice, days))).toBe("invalid_request");
  expect(codeOf(await destroy(vault.api))).toBe("forbidden");
  expect((await destroy(alice)).body).toMatchObject({ state: "active" });
  expect((await destroy(bob, 8)).body).toMatchObject({ state: "active", pending: { admin: "bob", days: 8 } });
  expect(await sign(key)).toBe(200);
  expect((await destroy(alice, 8)).body).toMatchObject({ state: "destroying", pending: null });
  expect(await sign(key)).toBe("key_disabled");
  expect(codeOf(await destroy(bob))).toBe("policy_violation");
  expect(codeOf(await post(alice, `/v1/keys/${key}/enable`))).toBe("policy_violation");
  vault.clock.move(8 * DAY - 1);
  expect((await eraseDue()).keys).toBe(0);
  vault.clock.move(1);
  expect((await eraseDue()).keys).toBe(1);
  expect((await eraseDue()).keys).toBe(0);
  const [row] = await vault.home.sql("select state, wrapped_seeds from keys where key_id = $1", [key]);
  expect(row).toEqual({ state: "destroyed", wrapped_seeds: Buffer.alloc(0) });
  expect(await sign(key)).toBe("key_disabled");
  expect(codeOf(await post(alice, `/v1/keys/${key}/destroy/cancel`))).toBe("policy_violation");
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the vault erases nothing while its machine's clock disagrees with its database's, also in the middle of a run", async () => {
  const key = await makeKey("acc-4");
  const other = await makeKey("acc-4");
  await destroyKey(key);
  await destroyKey(other);
  await makeKey("acc-5");
  await destroyTenant("acc-5");
  vault.clock.move(8 * DAY);
  const { at } = vault.clock;
  expect(
    await createErasing({ ...vault.parts(), clock: { now: () => at, agreed: () => undefined } })(),
  ).toEqual({ keys: 0, tenants: 0 });
  // The clocks agree while both tenants and keys are listed, and while the tenant and one key are erased.
  const answers = [at, at, at, at, at];
  const failing = { now: () => at, agreed: () => answers.pop() };
  expect(await createErasing({ ...vault.parts(), clock: failing })()).toEqual({ keys: 1, tenants: 1 });
  expect((await eraseDue()).keys).toBe(1);
});

test("nothing is destroyed while the clocks disagree, because its waiting period would begin at a wrong time", async () => {
  const key = await makeKey("acc-6");
  const parts = { ...vault.parts(), clock: { now: () => vault.clock.at, agreed: () => undefined } };
  for (const admin of ADMINS) {
    await expect(createKeyDestruction(parts)(admin, key, 7)).rejects.toMatchObject({ code: "unavailable" });
    await expect(createTenantDestruction(parts)(admin, "acc-6", 7)).rejects.toMatchObject({
      code: "unavailable",
    });
  }
  expect(await sign(key, "acc-6")).toBe(200);
});

test("a delegation to a key that is being destroyed or was destroyed is refused", async () => {
  const root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  const agent = await vault.makeAgent("acc-1");
  const delegate = async () => {
    const body = delegationRequest(root, agent, vault.now());
    return codeOf(await vault.post(`/v1/keys/${root.key_id}/sign/delegation`, body));
  };
  expect(await delegate()).toBe(200);
  await destroyKey(agent.key_id);
  expect(await delegate()).toBe("key_disabled");
  vault.clock.move(7 * DAY);
  await eraseDue();
  expect(await delegate()).toBe("key_disabled");
});

test("a destroyed key does not sign after its seeds are restored from a copy of the database", async () => {
  const key = await makeKey("acc-3");
  await vault.home.sql("create table copy as select * from keys where key_id = $1", [key]);
  await destroyKey(key);
  vault.clock.move(7 * DAY);
  await eraseDue();
  await vault.home.sql("delete from keys where key_id = $1", [key]);
  await vault.home.sql("insert into keys select * from copy; drop table copy");
  vault.vault.store.changed();
  expect(await sign(key, "acc-3")).toBe("key_damaged");
});

test("a key stays disabled after one admin cancels its destruction, until two admins enable it", async () => {
  const key = await makeKey();
  const cancel = async (client: Client) => (await post(client, `/v1/keys/${key}/destroy/cancel`)).body;
  await post(alice, `/v1/keys/${key}/destroy`, WEEK);
  expect(await cancel(bob)).toMatchObject({ state: "active", pending: null });
  await destroyKey(key);
  expect(await cancel(alice)).toMatchObject({ state: "disabled", destroy_at: null });
  vault.clock.move(30 * DAY);
  expect((await eraseDue()).keys).toBe(0);
  await both(`/v1/keys/${key}/enable`);
  expect(await sign(key)).toBe(200);
});

test("destroying a tenant's data key needs two admins and makes only that tenant's keys unusable", async () => {
  const [key, other] = [await makeKey("acc-9"), await makeKey("acc-8")];
  const path = "/v1/tenants/acc-9/destroy";
  const destroy = (client: Client, after_days = 7) => post(client, path, { after_days });
  expect(codeOf(await destroy(vault.api))).toBe("forbidden");
  expect(codeOf(await post(alice, "/v1/tenants/vault/destroy", WEEK))).toBe("invalid_request");
  await destroy(alice, 8);
  expect((await destroy(bob, 30)).body).toMatchObject({
    state: "active",
    pending: { admin: "bob", days: 30 },
  });
  await destroy(alice);
  expect(codeOf(await destroy(alice))).toBe("policy_violation");
  expect(await sign(key, "acc-9")).toBe(200);
  expect((await destroy(bob)).body).toMatchObject({ tenant: "acc-9", state: "destroying" });
  expect(codeOf(await destroy(alice)), "its days do not begin again").toBe("policy_violation");
  expect((await vault.get(`/v1/keys/${key}`)).body).toMatchObject({
    state: "active",
    tenant_state: "destroying",
  });
  expect(await sign(key, "acc-9")).toBe("key_disabled");
  await expect(makeKey("acc-9")).rejects.toThrow(/policy_violation/);
  expect((await post(alice, `${path}/cancel`)).body).toMatchObject({ state: "active" });
  expect(await sign(key, "acc-9")).toBe(200);
  await destroyTenant("acc-9");
  vault.clock.move(7 * DAY);
  expect((await eraseDue()).tenants).toBe(1);
  const [row] = await vault.home.sql("select state, wrapped_data_key from tenants where tenant = 'acc-9'");
  expect(row).toEqual({ state: "destroyed", wrapped_data_key: Buffer.alloc(0) });
  expect(await sign(key, "acc-9")).toBe("key_disabled");
  await expect(makeKey("acc-9")).rejects.toThrow(/policy_violation/);
  expect(codeOf(await post(alice, `${path}/cancel`)), "it is too late").toBe("policy_violation");
  expect(await sign(other, "acc-8")).toBe(200);
});

test("disabling a key that is being destroyed neither stops nor postpones the destruction", async () => {
  const key = await makeKey();
  await disable(key);
  const stored = async () =>
    (await vault.home.sql("select state, disabled_at, destroy_at from keys where key_id = $1", [key]))[0];
  const before = await stored();
  vault.clock.move(60);
  await destroyKey(key);
  const ending = await stored();
  expect(ending?.disabled_at, "disabled since it was").toEqual(before?.disabled_at);
  vault.clock.move(DAY);
  expect((await disable(key)).status).toBe(200);
  expect(await stored()).toEqual({ ...ending, state: "destroying" });
  vault.clock.move(6 * DAY);
  await eraseDue();
  expect((await disable(key)).status).toBe(200);
  expect(await stored()).toEqual({ ...ending, state: "destroyed" });
});

test("admins cannot disable, enable or destroy the vault's own key", async () => {
  const { keyId } = vault.vault.service;
  for (const [action, body] of [
    ["disable", {}],
    ["enable", {}],
    ["destroy", WEEK],
  ] as const) {
    expect(codeOf(await both(`/v1/keys/${keyId}/${action}`, body)), action).toBe("policy_violation");
  }
  const destroyAll = createTenantDestruction(vault.parts());
  for (const admin of ADMINS) {
    expect(await destroyAll(admin, "vault", 7)).toMatchObject({ refused: "policy_violation" });
  }
  expect((await makeKey()).length).toBe(32);
});

test("the destruction of an altered row is neither carried out nor cancelled, and does not prevent other erasures", async () => {
  const [altered = "", due = ""] = [await makeKey("acc-7"), await makeKey("acc-7")].sort();
  for (const key of [altered, due]) await destroyKey(key);
  await vault.home.sql("update keys set destroy_at = '2020-01-01' where key_id = $1", [altered]);
  expect((await eraseDue()).keys).toBe(0);
  vault.clock.move(7 * DAY);
  const { database } = vault.vault;
  const inPagesOfOne = ((table: string) => {
    const query = database(table);
    return Object.assign(query, { limit: () => Object.getPrototypeOf(query).limit.call(query, 1) });
  }) as unknown as Database;
  expect((await createErasing({ ...vault.parts(), database: inPagesOfOne })()).keys).toBe(1);
  const rows = await vault.home.sql(
    "select octet_length(wrapped_seeds) as size from keys where tenant = 'acc-7' order by key_id",
  );
  expect(rows).toEqual([{ size: 92 }, { size: 0 }]);
  expect(codeOf(await post(alice, `/v1/keys/${altered}/destroy/cancel`))).toBe("key_damaged");
});

test.each([
  ["an earlier erasure date", "destroy_at = '2020-01-01'"],
  ["a removed erasure date", "state = 'active', destroy_at = NULL"],
  [
    "a forged request by an admin",
    `pending = '{"action":"destroy","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`,
  ],
])(
  "a tenant that is being destroyed counts as damaged and is not changed if it has %s in the database",
  async (what, lie) => {
    const tenant = `acc-${what.replaceAll(" ", "-")}`;
    const key = await makeKey(tenant);
    await destroyTenant(tenant);
    await vault.home.sql(`update tenants set ${lie} where tenant = $1`, [tenant]);
    vault.vault.store.changed();
    expect((await eraseDue()).tenants).toBe(0);
    expect(await sign(key, tenant)).toBe("key_damaged");
    const seq = vault.head();
    expect(codeOf(await post(alice, `/v1/tenants/${tenant}/destroy/cancel`))).toBe("key_damaged");
    expect(await vault.recordsAfter(seq)).toEqual([
      { statement: "tenant_destroy_cancel", outcome: "failed" },
    ]);
  },
);

test("rows whose erasure date was set to an earlier date in the database are not erased", async () => {
  const [key, other] = [await makeKey("acc-early"), await makeKey("acc-early-too")];
  await destroyKey(key);
  await destroyTenant("acc-early-too");
  const pages: Record<string, string[][]> = {
    keys: [[key, other]],
    tenants: [["acc-early-too", "acc-early"]],
  };
  const lying = (table: string) => {
    const query = { where: () => query, orderBy: () => query, limit: () => query, pluck };
    return query;
    async function pluck(): Promise<string[]> {
      return pages[table]?.shift() ?? [];
    }
  };
  const database = lying as unknown as Database;
  const counted = await createErasing({ ...vault.parts(), database })();
  expect(counted, "nor counted, nor logged").toEqual({ keys: 0, tenants: 0 });
  const rows = await vault.home.sql(
    `select keys.state, tenants.state as tenant, length(wrapped_seeds) > 0 as seeds, length(wrapped_data_key) > 0 as data_key
     from keys join tenants using (tenant) where key_id in ($1, $2) order by tenants.tenant`,
    [key, other],
  );
  const whole = { seeds: true, data_key: true };
  expect(rows).toEqual([
    { ...whole, state: "destroying", tenant: "active" },
    { ...whole, state: "active", tenant: "destroying" },
  ]);
  vault.clock.move(7 * DAY);
  expect(await eraseDue()).toEqual({ keys: 1, tenants: 1 });
});

test("an attempt to destroy a missing tenant, or to cancel its destruction, is recorded", async () => {
  const seq = vault.head();
  expect(codeOf(await post(alice, "/v1/tenants/acc-none/destroy", WEEK))).toBe("key_not_found");
  expect(codeOf(await post(bob, "/v1/tenants/acc-none/destroy/cancel"))).toBe("key_not_found");
  expect(await vault.recordsAfter(seq)).toEqual([
    { statement: "tenant_destroy", outcome: "key_not_found" },
    { statement: "tenant_destroy_cancel", outcome: "key_not_found" },
  ]);
});

test("the destruction of a tenant overwrites data keys in memory immediately", async () => {
  await makeKey("acc-31");
  let cleared = 0;
  const dataKeys = {
    ...vault.vault.dataKeys,
    clear() {
      cleared += 1;
    },
  };
  const destroy = createTenantDestruction({ ...vault.parts(), dataKeys });
  for (const admin of ADMINS) await destroy(admin, "acc-31", 7);
  expect(cleared).toBe(2);
});
