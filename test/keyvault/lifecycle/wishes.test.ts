import { X509Certificate } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decideByTwo } from "../../../keyvault/lifecycle/approval.ts";
import { ADMIN, issueIdentity, startVault, type TestVault } from "../fixture.ts";
import type { Client } from "../http/caller_support.ts";

let vault: TestVault;
let bob: Client;
let admins = 0;

const HOUR_MS = 3_600_000;

beforeAll(async () => {
  vault = await startVault();
  bob = await admin("bob", 1_000);
});
afterAll(() => vault.close());

/**
 * An administrator's identity that holds for so many hours from the vault's time on, which may be ahead of
 * the machine's.
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
const makeKey = async (tenant: string) => (await vault.makeAgent(tenant)).key_id;

/** What two admins do to a key or its tenant: how it is asked for, and the state before and after. */
const WISHES = {
  "enabling a key": async (tenant: string) => {
    const key = await makeKey(tenant);
    await post(bob, `/v1/keys/${key}/disable`);
    return { ask: (by: Client) => post(by, `/v1/keys/${key}/enable`), before: "disabled", after: "active" };
  },
  "destroying a key": async (tenant: string) => {
    const key = await makeKey(tenant);
    const ask = (by: Client) => post(by, `/v1/keys/${key}/destroy`, { after_days: 7 });
    return { ask, before: "active", after: "destroying" };
  },
  "destroying a tenant": async (tenant: string) => {
    await makeKey(tenant);
    const ask = (by: Client) => post(by, `/v1/tenants/${tenant}/destroy`, { after_days: 7 });
    return { ask, before: "active", after: "destroying" };
  },
};

/** A new admin who asks for something first, in a tenant of its own. */
async function asked(prepare: (typeof WISHES)[keyof typeof WISHES], hours = 1_000) {
  const name = `alice-${++admins}`;
  const wish = await prepare(`acc-${admins}`);
  const alice = await admin(name, hours);
  expect(await wish.ask(alice)).toMatchObject({ state: wish.before, pending: { admin: name } });
  return { ...wish, name, alice };
}

test.each(Object.entries(WISHES))(
  "for %s an admin whose certificate was revoked since is none of the two",
  async (_, prepare) => {
    const { ask, before, after, alice } = await asked(prepare);
    await revoke(alice);
    expect(await ask(bob)).toMatchObject({ state: before, pending: { admin: "bob" } });
    expect(await ask(await admin("carol", 1_000))).toMatchObject({ state: after, pending: null });
  },
);

test("an admin whose certificate has expired since is none of the two", async () => {
  const { ask, before } = await asked(WISHES["destroying a key"], 1);
  vault.clock.move(2 * 3_600);
  expect(await ask(bob)).toMatchObject({ state: before, pending: { admin: "bob" } });
});

test("two certificates under one name are one admin", async () => {
  const { ask, name, after } = await asked(WISHES["destroying a key"]);
  expect(await ask(await admin(name, 1_000))).toMatchObject({ error: { code: "policy_violation" } });
  expect(await ask(bob)).toMatchObject({ state: after });
});

test("an admin with another certificate under the same name by then asks anew, and is one of the two", async () => {
  const { ask, name, before, after, alice } = await asked(WISHES["enabling a key"]);
  await revoke(alice);
  expect(await ask(await admin(name, 1_000))).toMatchObject({ state: before, pending: { admin: name } });
  expect(await ask(bob)).toMatchObject({ state: after });
});

test("what is shown of a wish is who asked for what, and when", async () => {
  const { ask } = await WISHES["destroying a key"]("acc-shown");
  const { pending } = await ask(bob);
  const shown = { action: "destroy", days: 7, admin: "bob", asked_at: expect.any(String) };
  expect(pending).toEqual(shown);
  const tenant = await WISHES["destroying a tenant"]("acc-shown-too");
  expect((await tenant.ask(bob)).pending).toEqual(shown);
  const { keys } = (await vault.get("/v1/keys?tenant=acc-shown", bob)).body;
  expect((keys as { pending: unknown }[]).map((key) => key.pending)).toEqual([shown]);
});

test("a wish without a certificate, as an older version stored it, waits anew for two", () => {
  const now = new Date();
  const pending = { action: "enable", admin: "alice", asked_at: now.toISOString() } as const;
  const decided = decideByTwo(pending, { action: "enable" }, ADMIN, { now, accepts: () => true });
  expect(decided).toMatchObject({ admin: ADMIN.name });
});

test.each([
  ["another thing", { action: "enable", days: 7 }],
  ["other days", { action: "destroy", days: 30 }],
  ["other rows", { action: "destroy", days: 7, rows: "some" }],
] as const)("who asks for %s grants nothing, and the own wish waits", (_, wish) => {
  const now = new Date();
  const judged = { now, accepts: () => true };
  const asked = { action: "destroy", days: 7 } as const;
  const bob = { ...ADMIN, name: "bob", certificate: "bob's" };
  const pending = { ...asked, admin: "alice", asked_at: now.toISOString(), certificate: "alice's" };
  expect(decideByTwo(pending, asked, bob, judged)).toBe("granted");
  expect(decideByTwo(pending, wish, bob, judged)).toMatchObject({ ...wish, admin: "bob" });
});
