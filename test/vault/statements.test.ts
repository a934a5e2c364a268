import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { revocationListSignBytes } from "../../src/protocol/statements/revocation_list.ts";
import { type CreatedKey, createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { call } from "../keyvault/http/caller_support.ts";

let vault: TestVault;
let client: VaultClient;
let root: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  client = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
  root = await makeRoot();
});
afterAll(async () => {
  await client.close();
  await vault.close();
});

const makeRoot = () =>
  client.createKey({ tenant: "acc-1", purpose: "account_root", label: "root" }, randomUUID());
const reference = ({ key_id }: CreatedKey) => ({ tenant: "acc-1", keyId: key_id });
const now = () => Math.floor(vault.clock.now().getTime() / 1000);
const refused = { name: "VaultRefused", code: "policy_violation" };

test("the vault signs complete revocation lists with the root key and refuses older lists", async () => {
  const first = {
    updatedAt: now(),
    revoked: [
      { certId: "cert-1", expiresAt: now() + 60 },
      { certId: "cert-2", expiresAt: null },
    ],
  };
  const list = await client.statements.revocationList(reference(root), first);
  expect(list).toMatchObject({
    issuer_id: root.key_id,
    updated_at: first.updatedAt,
    revoked_certs: ["cert-1", "cert-2"],
  });
  expect(await verifyHybrid(root.public_key, revocationListSignBytes(list), list.signature)).toBe(true);
  expect(await client.statements.revocationList(reference(root), first)).toMatchObject({
    revoked_certs: list.revoked_certs,
  });
  const next = (at: number, kept: typeof first.revoked) =>
    client.statements.revocationList(reference(root), { updatedAt: first.updatedAt + at, revoked: kept });
  await expect(next(0, [])).rejects.toMatchObject(refused);
  await expect(next(1, [])).rejects.toMatchObject(refused);
  vault.clock.move(121);
  expect(await next(121, first.revoked.slice(1))).toMatchObject({ revoked_certs: ["cert-2"] });
  await expect(next(122, [])).rejects.toMatchObject(refused);
});

test("the vault client returns the pending request of a key whose destruction an admin requested", async () => {
  const agent = await client.createKey(
    { tenant: "acc-1", purpose: "agent", label: "ending", ceiling: [] },
    randomUUID(),
  );
  expect(await client.getKey(reference(agent))).toMatchObject({
    state: "active",
    pending: null,
    destroy_at: null,
  });
  const admin = readIdentity(vault.home, "admin");
  const destroy = { method: "POST", body: { after_days: 7 } };
  await call(`${vault.url}/v1/keys/${agent.key_id}/destroy`, admin, destroy);
  expect((await client.getKey(reference(agent))).pending).toMatchObject({
    action: "destroy",
    admin: "admin",
  });
});
