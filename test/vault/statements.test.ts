import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifyHybrid } from "../../src/protocol/hybrid.ts";
import { keyRotationSignBytes } from "../../src/protocol/key_rotation.ts";
import { revocationListSignBytes } from "../../src/protocol/revocation_list.ts";
import { revocationPushSignBytes } from "../../src/protocol/revocation_push.ts";
import { verificationReceiptSignBytes } from "../../src/protocol/verification_receipt.ts";
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
const zeros = Buffer.alloc(32).toString("base64");
const refused = { name: "VaultRefused", code: "policy_violation" };

test("revocation lists are whole, signed by the root, and only go forward", async () => {
  const first = { updated_at: now(), revoked_certs: ["cert-1"] };
  const list = await client.statements.revocationList(reference(root), first);
  expect(list).toMatchObject({ issuer_id: root.key_id, ...first });
  expect(await verifyHybrid(root.public_key, revocationListSignBytes(list), list.signature)).toBe(true);
  const again = await client.statements.revocationList(reference(root), first);
  expect(again).toMatchObject(first);
  await expect(
    client.statements.revocationList(reference(root), { ...first, revoked_certs: [] }),
  ).rejects.toMatchObject(refused);
});

test("pushes count up by one", async () => {
  const push = { seq_no: 1, entries: ["cert-1"], pushed_at: now() };
  await expect(
    client.statements.revocationPush(reference(root), { ...push, seq_no: 2 }),
  ).rejects.toMatchObject(refused);
  const signed = await client.statements.revocationPush(reference(root), push);
  expect(await verifyHybrid(root.public_key, revocationPushSignBytes(signed), signed.signature)).toBe(true);
});

test("a rotation is signed by both keys", async () => {
  const next = await makeRoot();
  const order = { new_id: next.key_id, rotated_at: now(), reason: "routine" } as const;
  const statement = await client.statements.keyRotation(reference(root), order);
  const bytes = keyRotationSignBytes(statement);
  expect(await verifyHybrid(root.public_key, bytes, statement.signature_old)).toBe(true);
  expect(await verifyHybrid(next.public_key, bytes, statement.signature_new)).toBe(true);
});

test("receipts and checkpoints are the service key's, which every attestation names", async () => {
  const service = root.attestation.attested_by;
  const receipt = {
    bundle_hash: zeros,
    decision: "authorized_agent",
    verified_at: now(),
    verifier_id: "verifier-1",
    prev_hash: zeros,
  };
  const first = await client.statements.receipt(service, receipt);
  const bytes = verificationReceiptSignBytes(first);
  expect(await verifyHybrid(first.verifier_pub, bytes, first.signature)).toBe(true);
  const link = createHash("sha256").update(bytes).digest("base64");
  const other = Buffer.alloc(32, 1).toString("base64");
  await expect(client.statements.receipt(service, { ...receipt, bundle_hash: other })).rejects.toMatchObject(
    refused,
  );
  await client.statements.receipt(service, { ...receipt, bundle_hash: other, prev_hash: link });
  const head = { origin: "log.example", size: 2, root: zeros };
  const signed = await client.statements.checkpoint(service, head);
  expect(signed).toMatchObject({ ...head, body: `log.example\n2\n${zeros}\n` });
  expect(await verifyHybrid(first.verifier_pub, Buffer.from(signed.body), signed.signature)).toBe(true);
  await expect(client.statements.checkpoint(service, { ...head, size: 1 })).rejects.toMatchObject(refused);
});

test("a key that is being destroyed is shown as such, with what waits and when its seeds go", async () => {
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
