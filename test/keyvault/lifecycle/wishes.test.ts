import { X509Certificate } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decideByTwo } from "../../../keyvault/lifecycle/approval.ts";
import { ADMIN, codeOf, issueIdentity, startVault, type TestVault } from "../fixture.ts";
import type { Client } from "../http/caller_support.ts";

let vault: TestVault;
let alice: Client;
let bob: Client;
let admins = 0;

const HOUR_MS = 3_600_000;

beforeAll(async () => {
  vault = await startVault();
  alice = await admin("alice", 1_000);
  bob = await admin("bob", 1_000);
});
afterAll(() => vault.close());

/**
 * The certificate is valid for this number of hours by the vault's clock, which may be ahead of the
 * machine's.
 */
function admin(name: string, hours: number): Promise<Client> {
  const notAfter = new Date(vault.clock.now().getTime() + hours * HOUR_MS);
  const validity = { notBefore: new Date(Date.now() - HOUR_MS), notAfter };
  return issueIdentity(vault.home, { kind: "client", role: "admin", name }, validity);
}

async function revoke({ cert = "" }: Client): Promise<void> {
  await appendFile(vault.home.config.tls.revokedFile, `${new X509Certificate(cert).serialNumber}\n`);
  await vault.trust.refresh();
}

const post = async (client: Client, path: string, body?: object) =>
  (await vault.post(path, body, client)).body;
const code = (body: { error?: { code: string } }) => body.error?.code;
const makeKey = async (tenant: string) => (await vault.makeAgent(tenant)).key_id;

/**
 * Changes of a key or its tenant that need two admins: how to request them, and the states before and after.
 */
const WISHES = {
  "enabling a key": async (tenant: string) => {
    const key = await makeKey(tenant);
    const disable = () => post(bob, `/v1/keys/${key}/disable`);
    await disable();
    const ask = (by: Client) => post(by, `/v1/keys/${key}/enable`);
    return { ask, disable, before: "disabled", after: "active" };
  },
  "destroying a key": async (tenant: string) => {
    const key = await makeKey(tenant);
    const disable = () => post(bob, `/v1/keys/${key}/disable`);
    const ask = (by: Client) => post(by, `/v1/keys/${key}/destroy`, { after_days: 7 });
    return { ask, disable, before: "active", after: "destroying" };
  },
  "destroying a tenant": async (tenant: string) => {
    await makeKey(tenant);
    const ask = (by: Client) => post(by, `/v1/tenants/${tenant}/destroy`, { after_days: 7 });
    return { ask, before: "active", after: "destroying" };
  },
};

async function asked(prepare: (typeof WISHES)[keyof typeof WISHES], hours = 1_000) {
  const name = `alice-${++admins}`;
  const wish = await prepare(`acc-${admins}`);
  const alice = await admin(name, hours);
  expect(await wish.ask(alice)).toMatchObject({ state: wish.before, pending: { admin: name } });
  return { ...wish, name, alice };
}

test.each(Object.entries(WISHES))(
  "the two-admin rule for %s ignores a request if its admin's certificate was revoked meanwhile",
  async (_, prepare) => {
    const { ask, before, after, alice } = await asked(prepare);
    await revoke(alice);
    expect(await ask(bob)).toMatchObject({ state: before, pending: { admin: "bob" } });
    expect(await ask(await admin("carol", 1_000))).toMatchObject({ state: after, pending: null });
  },
);

test("the two-admin rule ignores a request if its admin's certificate has expired meanwhile", async () => {
  const { ask, before } = await asked(WISHES["destroying a key"], 1);
  vault.clock.move(2 * 3_600);
  expect(await ask(bob)).toMatchObject({ state: before, pending: { admin: "bob" } });
});

test("the two-admin rule counts two certificates with the same name as one admin", async () => {
  const { ask, name, after } = await asked(WISHES["destroying a key"]);
  expect(await ask(await admin(name, 1_000))).toMatchObject({ error: { code: "policy_violation" } });
  expect(await ask(bob)).toMatchObject({ state: after });
});

test("the two-admin rule accepts an admin's renewed request with a new certificate", async () => {
  const { ask, name, before, after, alice } = await asked(WISHES["enabling a key"]);
  await revoke(alice);
  expect(await ask(await admin(name, 1_000))).toMatchObject({ state: before, pending: { admin: name } });
  expect(await ask(bob)).toMatchObject({ state: after });
});

test("a disabled key signs again only after two different admins request to enable it", async () => {
  const key = await makeKey("acc-1");
  const enable = (client: Client) => post(client, `/v1/keys/${key}/enable`);
  expect(code(await enable(alice))).toBe("policy_violation");
  await post(vault.api, `/v1/keys/${key}/disable`, { tenant: "acc-1" });
  expect(code(await enable(vault.api))).toBe("forbidden");
  expect(await enable(alice)).toMatchObject({ state: "disabled", pending: { admin: "alice" } });
  expect(code(await enable(alice))).toBe("policy_violation");
  expect(codeOf(await vault.sign(key))).toBe("key_disabled");
  expect(await enable(bob)).toEqual({ key_id: key, state: "active", pending: null, destroy_at: null });
  expect(codeOf(await vault.sign(key))).toBe(200);
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

const DAY = 86_400;

test.each([
  ["approved 24 hours later", DAY, "active"],
  ["too old after 24 hours and one second", DAY + 1, "disabled"],
  ["approved after the clock was set back by 24 hours", -DAY, "active"],
  ["too far in the future after the clock was set back by more than 24 hours", -DAY - 1, "disabled"],
])("one admin's request is %s", async (_, seconds, state) => {
  const key = await makeKey("acc-1");
  const at = vault.clock.at;
  await post(alice, `/v1/keys/${key}/disable`);
  vault.clock.move(Math.max(0, -seconds));
  await post(alice, `/v1/keys/${key}/enable`);
  vault.clock.at = at;
  vault.clock.move(Math.max(0, seconds));
  expect((await post(bob, `/v1/keys/${key}/enable`)).state).toBe(state);
});

test("disabling a key cancels a pending request to enable it, but not one to destroy it", async () => {
  const enabling = await WISHES["enabling a key"]("acc-1");
  await enabling.ask(alice);
  await enabling.disable();
  expect(await enabling.ask(bob)).toMatchObject({ state: "disabled" });
  const destroying = await WISHES["destroying a key"]("acc-1");
  await destroying.ask(alice);
  await destroying.disable();
  expect(await destroying.ask(bob)).toMatchObject({ state: "destroying" });
});

test.each([
  ["a key", (key: string) => `/v1/keys/${key}/destroy`],
  ["a tenant", () => "/v1/tenants/acc-named/destroy"],
])(
  "the record of the destruction of %s names both admins, and one admin can cancel the request",
  async (_, pathOf) => {
    const path = pathOf(await makeKey("acc-named"));
    const seq = vault.head();
    const nine = { after_days: 9 };
    await post(alice, path, nine);
    await post(bob, `${path}/cancel`);
    for (const client of [bob, alice]) await post(client, path, nine);
    for (const client of [alice, alice]) await post(client, `${path}/cancel`);
    const records = await vault.home.sql(
      "select caller, outcome, detail - 'tenant' as detail from audit where seq > $1 order by seq",
      [seq],
    );
    const wish = { outcome: "granted", detail: { days: "9", step: "asked" } };
    expect(records).toEqual([
      { caller: "alice", ...wish },
      { caller: "bob", outcome: "granted", detail: {} },
      { caller: "bob", ...wish },
      { caller: "alice", outcome: "granted", detail: { days: "9", step: "done", asked_by: "bob" } },
      { caller: "alice", outcome: "granted", detail: {} },
      { caller: "alice", outcome: "policy_violation", detail: {} },
    ]);
  },
);

test("a pending request shows its admin, its action and its time", async () => {
  const { ask } = await WISHES["destroying a key"]("acc-shown");
  const { pending } = await ask(bob);
  const shown = { action: "destroy", days: 7, admin: "bob", asked_at: expect.any(String) };
  expect(pending).toEqual(shown);
  const tenant = await WISHES["destroying a tenant"]("acc-shown-too");
  expect((await tenant.ask(bob)).pending).toEqual(shown);
  const { keys } = (await vault.get("/v1/keys?tenant=acc-shown", bob)).body;
  expect((keys as { pending: unknown }[]).map((key) => key.pending)).toEqual([shown]);
});

test("a pending request from an older version, without a certificate, needs two admins again", () => {
  const now = new Date();
  const pending = { action: "enable", admin: "alice", asked_at: now.toISOString() } as const;
  const decided = decideByTwo(pending, { action: "enable" }, ADMIN, { now, accepts: () => true });
  expect(decided).toMatchObject({ admin: ADMIN.name });
});

test.each([
  ["a different action", { action: "enable", days: 7 }],
  ["a different number of days", { action: "destroy", days: 30 }],
  ["different rows", { action: "destroy", days: 7, rows: "some" }],
] as const)("a request for %s approves nothing and replaces the pending request", (_, wish) => {
  const now = new Date();
  const judged = { now, accepts: () => true };
  const asked = { action: "destroy", days: 7 } as const;
  const bob = { ...ADMIN, name: "bob", certificate: "bob's" };
  const pending = { ...asked, admin: "alice", asked_at: now.toISOString(), certificate: "alice's" };
  expect(decideByTwo(pending, asked, bob, judged)).toBe("granted");
  expect(decideByTwo(pending, wish, bob, judged)).toMatchObject({ ...wish, admin: "bob" });
});
