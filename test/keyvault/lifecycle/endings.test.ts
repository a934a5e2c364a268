import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import type { Database } from "../../../keyvault/db/database.ts";
import { createTenantDestruction } from "../../../keyvault/lifecycle/destroy_tenant.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { issueIdentity, readIdentity, startVault, type TestVault } from "../fixture.ts";
import { type Client, call } from "../http/caller_support.ts";
import { certificateFields } from "../sign/certificate_fields.ts";

let vault: TestVault;
let api: Client;
let alice: Client;
let bob: Client;

beforeAll(async () => {
  vault = await startVault();
  const year = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3e10) };
  api = readIdentity(vault.home, "api");
  alice = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "alice" }, year);
  bob = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "bob" }, year);
});
afterAll(() => vault.close());

const DAY = 86_400;
const makeKey = async (tenant: string) =>
  (await vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: ["data:read"] })).key_id;
const post = (client: Client, path: string, body: unknown = {}) =>
  call(`${vault.url}${path}`, client, { method: "POST", body });
const sign = async (keyId: string, tenant: string) => {
  const challenge = Buffer.alloc(32, 1).toString("base64");
  const body = { tenant, challenge, challenge_at: unixSeconds(vault.clock.now()) };
  const answer = await post(api, `/v1/keys/${keyId}/sign/challenge`, body);
  return answer.body.error?.code ?? answer.status;
};
const eraseDue = () => createErasing({ ...vault.vault, clock: vault.clock })();
const code = (answer: { body: { error?: { code: string } } }) => answer.body.error?.code;

test("a disabled key signs again only when two different admins ask for it", async () => {
  const key = await makeKey("acc-1");
  const enable = (client: Client) => post(client, `/v1/keys/${key}/enable`);
  expect(code(await enable(alice))).toBe("policy_violation");
  await post(api, `/v1/keys/${key}/disable`, { tenant: "acc-1" });
  expect(code(await enable(api))).toBe("forbidden");
  expect((await enable(alice)).body).toMatchObject({ state: "disabled", pending: { admin: "alice" } });
  expect(code(await enable(alice))).toBe("policy_violation");
  expect(await sign(key, "acc-1")).toBe("key_disabled");
  expect((await enable(bob)).body).toEqual({ key_id: key, state: "active", pending: null, destroy_at: null });
  expect(await sign(key, "acc-1")).toBe(200);
  const records = await vault.home.sql(
    "select caller, outcome, detail from audit where key_id = $1 and statement = 'key_enable' order by seq",
    [key],
  );
  expect(records).toEqual([
    { caller: "alice", outcome: "policy_violation", detail: {} },
    { caller: "alice", outcome: "granted", detail: { step: "asked" } },
    { caller: "alice", outcome: "policy_violation", detail: {} },
    { caller: "bob", outcome: "granted", detail: { step: "done", asked_by: "alice" } },
  ]);
});

test("what one admin asked for counts for 24 hours, and not a second longer", async () => {
  for (const [seconds, state] of [
    [DAY, "active"],
    [DAY + 1, "disabled"],
  ] as const) {
    const key = await makeKey("acc-1");
    await post(alice, `/v1/keys/${key}/disable`);
    await post(alice, `/v1/keys/${key}/enable`);
    vault.clock.move(seconds);
    expect((await post(bob, `/v1/keys/${key}/enable`)).body.state).toBe(state);
  }
});

test("disabling takes back what waits to enable the key", async () => {
  const key = await makeKey("acc-1");
  await post(api, `/v1/keys/${key}/disable`, { tenant: "acc-1" });
  await post(alice, `/v1/keys/${key}/enable`);
  await post(api, `/v1/keys/${key}/disable`, { tenant: "acc-1" });
  expect((await post(bob, `/v1/keys/${key}/enable`)).body).toMatchObject({ state: "disabled" });
});

test("two admins destroy a key: it stops immediately, and its seeds are gone when the days are over", async () => {
  const key = await makeKey("acc-1");
  const destroy = (client: Client, after_days = 7) => post(client, `/v1/keys/${key}/destroy`, { after_days });
  for (const days of [6, 31]) expect(code(await destroy(alice, days))).toBe("invalid_request");
  expect(code(await destroy(api))).toBe("forbidden");
  expect((await destroy(alice)).body).toMatchObject({ state: "active" });
  expect((await destroy(bob, 8)).body).toMatchObject({ state: "active", pending: { admin: "bob", days: 8 } });
  expect(await sign(key, "acc-1")).toBe(200);
  expect((await destroy(alice, 8)).body).toMatchObject({ state: "destroying", pending: null });
  expect(await sign(key, "acc-1")).toBe("key_disabled");
  expect(code(await destroy(bob))).toBe("policy_violation");
  expect(code(await post(alice, `/v1/keys/${key}/enable`))).toBe("policy_violation");
  vault.clock.move(8 * DAY - 1);
  expect((await eraseDue()).keys).toBe(0);
  vault.clock.move(1);
  expect((await eraseDue()).keys).toBe(1);
  expect((await eraseDue()).keys).toBe(0);
  const [row] = await vault.home.sql("select state, wrapped_seeds from keys where key_id = $1", [key]);
  expect(row).toEqual({ state: "destroyed", wrapped_seeds: Buffer.alloc(0) });
  expect(await sign(key, "acc-1")).toBe("key_disabled");
  expect(code(await post(alice, `/v1/keys/${key}/destroy/cancel`))).toBe("policy_violation");
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("nothing is delegated to a key that is being destroyed, or that was", async () => {
  const root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  const agent = await vault.makeKey({
    tenant: "acc-1",
    purpose: "agent",
    label: "agent",
    ceiling: ["data:read"],
  });
  const delegate = async () => {
    const now = unixSeconds(vault.clock.now());
    const certificate = { ...certificateFields(root, agent, now), expires_at: now + 3600 };
    const approval = { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1" };
    const body = { tenant: "acc-1", certificate, approval };
    const answer = await post(api, `/v1/keys/${root.key_id}/sign/delegation`, body);
    return answer.body.error?.code ?? answer.status;
  };
  expect(await delegate()).toBe(200);
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${agent.key_id}/destroy`, { after_days: 7 });
  expect(await delegate()).toBe("key_disabled");
  vault.clock.move(7 * DAY);
  await eraseDue();
  expect(await delegate()).toBe("key_disabled");
});

test("seeds put back from a copy of the database do not make a destroyed key sign", async () => {
  const key = await makeKey("acc-3");
  await vault.home.sql("create table copy as select * from keys where key_id = $1", [key]);
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
  vault.clock.move(7 * DAY);
  await eraseDue();
  await vault.home.sql("delete from keys where key_id = $1", [key]);
  await vault.home.sql("insert into keys select * from copy");
  await vault.home.sql("drop table copy");
  vault.vault.store.changed();
  expect(await sign(key, "acc-3")).toBe("key_damaged");
});

test("one admin cancels a destruction; the key is then disabled until two enable it", async () => {
  const key = await makeKey("acc-1");
  await post(alice, `/v1/keys/${key}/destroy`, { after_days: 7 });
  expect((await post(bob, `/v1/keys/${key}/destroy/cancel`)).body).toMatchObject({
    state: "active",
    pending: null,
  });
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
  expect((await post(alice, `/v1/keys/${key}/destroy/cancel`)).body).toMatchObject({
    state: "disabled",
    destroy_at: null,
  });
  vault.clock.move(30 * DAY);
  expect((await eraseDue()).keys).toBe(0);
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/enable`);
  expect(await sign(key, "acc-1")).toBe(200);
});

test("two admins destroy a tenant's data key: its keys are unusable, other tenants' are not", async () => {
  const [key, other] = [await makeKey("acc-9"), await makeKey("acc-8")];
  const destroy = (client: Client, after_days = 7) =>
    post(client, "/v1/tenants/acc-9/destroy", { after_days });
  expect(code(await destroy(api))).toBe("forbidden");
  expect(code(await post(alice, "/v1/tenants/none/destroy", { after_days: 7 }))).toBe("key_not_found");
  expect(code(await post(alice, "/v1/tenants/vault/destroy", { after_days: 7 }))).toBe("invalid_request");
  await destroy(alice, 8);
  expect((await destroy(bob, 30)).body).toMatchObject({
    state: "active",
    pending: { admin: "bob", days: 30 },
  });
  await destroy(alice);
  expect(code(await destroy(alice))).toBe("policy_violation");
  expect(await sign(key, "acc-9")).toBe(200);
  expect((await destroy(bob)).body).toMatchObject({ tenant: "acc-9", state: "destroying" });
  expect(code(await destroy(alice)), "its days do not begin anew").toBe("policy_violation");
  expect((await call(`${vault.url}/v1/keys/${key}`, alice)).body).toMatchObject({
    state: "active",
    tenant_state: "destroying",
  });
  expect(await sign(key, "acc-9")).toBe("key_disabled");
  await expect(makeKey("acc-9")).rejects.toThrow(/policy_violation/);
  expect((await post(alice, "/v1/tenants/acc-9/destroy/cancel")).body).toMatchObject({ state: "active" });
  expect(await sign(key, "acc-9")).toBe(200);
  for (const admin of [alice, bob]) await destroy(admin);
  vault.clock.move(7 * DAY);
  expect((await eraseDue()).tenants).toBe(1);
  const [row] = await vault.home.sql("select state, wrapped_data_key from tenants where tenant = 'acc-9'");
  expect(row).toEqual({ state: "destroyed", wrapped_data_key: Buffer.alloc(0) });
  expect(await sign(key, "acc-9")).toBe("key_disabled");
  await expect(makeKey("acc-9")).rejects.toThrow(/policy_violation/);
  expect(code(await post(alice, "/v1/tenants/acc-9/destroy/cancel")), "it is too late").toBe(
    "policy_violation",
  );
  expect(await sign(other, "acc-8")).toBe(200);
});

test("an altered row is not erased, and keeps no other from it", async () => {
  const [altered, due] = [await makeKey("acc-7"), await makeKey("acc-7")];
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${due}/destroy`, { after_days: 7 });
  await vault.home.sql(
    "update keys set state = 'destroying', disabled_at = now(), destroy_at = '2020-01-01' where key_id = $1",
    [altered],
  );
  vault.clock.move(7 * DAY);
  expect((await eraseDue()).keys).toBe(1);
  const [row] = await vault.home.sql<{ size: number }>(
    "select octet_length(wrapped_seeds) as size from keys where key_id = $1",
    [altered],
  );
  expect(row?.size).toBe(92);
});

test("a wish from the future, by a clock that was set back since, counts no longer than one from the past", async () => {
  for (const [seconds, state] of [
    [DAY, "active"],
    [DAY + 1, "disabled"],
  ] as const) {
    const key = await makeKey("acc-1");
    await post(alice, `/v1/keys/${key}/disable`);
    const at = vault.clock.at;
    vault.clock.move(seconds);
    await post(alice, `/v1/keys/${key}/enable`);
    vault.clock.at = at;
    expect((await post(bob, `/v1/keys/${key}/enable`)).body.state).toBe(state);
  }
});

test("disabling leaves what waits to destroy the key", async () => {
  const key = await makeKey("acc-1");
  await post(alice, `/v1/keys/${key}/destroy`, { after_days: 7 });
  expect((await post(alice, `/v1/keys/${key}/disable`)).status).toBe(200);
  expect((await post(bob, `/v1/keys/${key}/destroy`, { after_days: 7 })).body.state).toBe("destroying");
});

test("disabling a key that is being destroyed neither stops its end nor moves it, nor does it afterwards", async () => {
  const key = await makeKey("acc-1");
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
  const disable = async () => (await post(api, `/v1/keys/${key}/disable`, { tenant: "acc-1" })).status;
  const stored = () =>
    vault.home.sql("select state, disabled_at, destroy_at from keys where key_id = $1", [key]);
  const [ending] = await stored();
  vault.clock.move(DAY);
  expect(await disable()).toBe(200);
  expect(await stored()).toEqual([{ ...ending, state: "destroying" }]);
  vault.clock.move(6 * DAY);
  await eraseDue();
  expect(await disable()).toBe(200);
  expect(await stored()).toEqual([{ ...ending, state: "destroyed" }]);
});

test("admins neither disable, enable nor destroy the vault's own key", async () => {
  const [row] = await vault.home.sql<{ key_id: string }>("select key_id from keys where tenant = 'vault'");
  for (const [action, body] of [
    ["disable", {}],
    ["enable", {}],
    ["destroy", { after_days: 7 }],
  ] as const) {
    for (const admin of [alice, bob]) {
      expect(code(await post(admin, `/v1/keys/${row!.key_id}/${action}`, body)), action).toBe(
        "policy_violation",
      );
    }
  }
  const destroyAll = createTenantDestruction({ ...vault.vault, clock: vault.clock, accepts: () => true });
  for (const name of ["alice", "bob"]) {
    expect(await destroyAll({ role: "admin", name, certificate: name }, "vault", 7)).toMatchObject({
      refused: "policy_violation",
    });
  }
  expect((await makeKey("acc-1")).length).toBe(32);
});

test("a destruction whose end was altered in the database neither comes early nor is taken back", async () => {
  const key = await makeKey("acc-21");
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
  await vault.home.sql("update keys set destroy_at = '2020-01-01' where key_id = $1", [key]);
  expect((await eraseDue()).keys).toBe(0);
  expect(code(await post(alice, `/v1/keys/${key}/destroy/cancel`))).toBe("key_damaged");
});

test.each([
  ["an end that is earlier", "destroy_at = '2020-01-01'"],
  ["no end any more", "state = 'active', destroy_at = NULL"],
  ["a wish of an admin", `pending = '{"action":"destroy","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`],
])(
  "a tenant to be destroyed with %s in the database is damaged: nothing is done to it",
  async (what, lie) => {
    const tenant = `acc-${what.replaceAll(" ", "-")}`;
    const key = await makeKey(tenant);
    for (const admin of [alice, bob]) await post(admin, `/v1/tenants/${tenant}/destroy`, { after_days: 7 });
    await vault.home.sql(`update tenants set ${lie} where tenant = $1`, [tenant]);
    vault.vault.store.changed();
    const { seq } = vault.vault.journal.head();
    expect((await eraseDue()).tenants).toBe(0);
    expect(await sign(key, tenant)).toBe("key_damaged");
    expect(code(await post(alice, `/v1/tenants/${tenant}/destroy/cancel`))).toBe("key_damaged");
    const rows = await vault.home.sql(
      "select outcome from audit where seq > $1 and statement = 'tenant_destroy_cancel'",
      [seq],
    );
    expect(rows).toEqual([{ outcome: "failed" }]);
  },
);

test("what the database calls due before its time, for the moment that it is asked, is not erased", async () => {
  const key = await makeKey("acc-early");
  const other = await makeKey("acc-early-too");
  for (const admin of [alice, bob]) {
    await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
    await post(admin, "/v1/tenants/acc-early-too/destroy", { after_days: 7 });
  }
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
  const counted = await createErasing({ ...vault.vault, database, clock: vault.clock })();
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

test("data keys in memory are overwritten the moment a tenant is to be destroyed", async () => {
  await makeKey("acc-31");
  let cleared = 0;
  const dataKeys = {
    ...vault.vault.dataKeys,
    clear() {
      cleared += 1;
    },
  };
  const { clock } = vault;
  const destroy = createTenantDestruction({ ...vault.vault, dataKeys, clock, accepts: () => true });
  for (const name of ["alice", "bob"]) await destroy({ role: "admin", name, certificate: name }, "acc-31", 7);
  expect(cleared).toBe(2);
});

test("a tenant to be destroyed signs no revocation list either, until that is taken back", async () => {
  const order = { tenant: "acc-41", purpose: "account_root", label: "root" } as const;
  const { key_id } = await vault.makeKey(order);
  const list = async () => {
    const body = {
      tenant: "acc-41",
      updated_at: unixSeconds(vault.clock.now()),
      revoked_certs: [],
      expires_at: [],
    };
    const answer = await post(api, `/v1/keys/${key_id}/sign/revocation-list`, body);
    return answer.body.error?.code ?? answer.status;
  };
  for (const admin of [alice, bob]) await post(admin, "/v1/tenants/acc-41/destroy", { after_days: 7 });
  expect(await list()).toBe("key_disabled");
  await post(bob, "/v1/tenants/acc-41/destroy/cancel");
  expect(await list()).toBe(200);
});

test("however many rows were altered to be erased first, what is due is erased", async () => {
  const [altered, due] = [await makeKey("acc-51"), await makeKey("acc-51")];
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${due}/destroy`, { after_days: 7 });
  const columns =
    "tenant, purpose, label, public_key, wrapped_seeds, seeds_version, attestation, ceiling, created_at";
  await vault.home.sql(
    `insert into keys (key_id, request_key, state, disabled_at, destroy_at, request_hash, state_seq, state_mac, ${columns})
     select '0000' || substr(md5(n::text), 5), 'forged:' || n, 'destroying', now(), '2020-01-01', request_hash, state_seq, state_mac, ${columns}
     from keys, generate_series(1, 501) as n where key_id = $1`,
    [altered],
  );
  vault.clock.move(7 * DAY);
  await eraseDue();
  const rows = await vault.home.sql("select state from keys where key_id = $1", [due]);
  expect(rows).toEqual([{ state: "destroyed" }]);
  await vault.home.sql("delete from keys where request_key like 'forged:%'");
});

test("a try to destroy a tenant that is not there, or to take that back, is on record", async () => {
  const paths = ["/v1/tenants/acc-none/destroy", "/v1/tenants/acc-none/destroy/cancel"] as const;
  expect(code(await post(alice, paths[0], { after_days: 7 }))).toBe("key_not_found");
  expect(code(await post(bob, paths[1]))).toBe("key_not_found");
  const records = await vault.home.sql(
    "select caller, statement, outcome from audit where detail ->> 'tenant' = 'acc-none' order by seq",
  );
  expect(records).toEqual([
    { caller: "alice", statement: "tenant_destroy", outcome: "key_not_found" },
    { caller: "bob", statement: "tenant_destroy_cancel", outcome: "key_not_found" },
  ]);
});

test.each<[string, () => Promise<string>]>([
  ["a key", async () => `/v1/keys/${await makeKey("acc-two")}/destroy`],
  [
    "a tenant",
    async () => {
      await makeKey("acc-named");
      return "/v1/tenants/acc-named/destroy";
    },
  ],
] as const)(
  "the record of the end of %s names both admins; one takes a wish for it back",
  async (_, make) => {
    const path = await make();
    const [{ seq }] = (await vault.home.sql<{ seq: number }>("select max(seq)::int as seq from audit")) as [
      { seq: number },
    ];
    const steps: [Client, string, object][] = [
      [alice, path, { after_days: 9 }],
      [bob, `${path}/cancel`, {}],
      [bob, path, { after_days: 9 }],
      [alice, path, { after_days: 9 }],
      [alice, `${path}/cancel`, {}],
      [alice, `${path}/cancel`, {}],
    ];
    for (const [client, at, body] of steps) await post(client, at, body);
    const records = await vault.home.sql(
      "select caller, outcome, detail - 'tenant' as detail from audit where seq > $1 order by seq",
      [seq],
    );
    const asked = { outcome: "granted", detail: { days: "9", step: "asked" } };
    expect(records).toEqual([
      { caller: "alice", ...asked },
      { caller: "bob", outcome: "granted", detail: {} },
      { caller: "bob", ...asked },
      { caller: "alice", outcome: "granted", detail: { days: "9", step: "done", asked_by: "bob" } },
      { caller: "alice", outcome: "granted", detail: {} },
      { caller: "alice", outcome: "policy_violation", detail: {} },
    ]);
  },
);

test("a key that was disabled before it is destroyed has been disabled since then", async () => {
  const key = await makeKey("acc-since");
  await post(api, `/v1/keys/${key}/disable`, { tenant: "acc-since" });
  const since = () => vault.home.sql("select disabled_at from keys where key_id = $1", [key]);
  const before = await since();
  vault.clock.move(60);
  for (const admin of [alice, bob]) await post(admin, `/v1/keys/${key}/destroy`, { after_days: 7 });
  expect(await since()).toEqual(before);
});
