import { hash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import type { HybridPublicKey, HybridSignature } from "../../../src/protocol/hybrid.ts";
import { verifyHybrid } from "../../../src/protocol/hybrid.ts";
import { type KeyRotationStatement, verifyKeyRotation } from "../../../src/protocol/key_rotation.ts";
import { type RevocationList, verifyRevocationList } from "../../../src/protocol/revocation_list.ts";
import { type RevocationPush, verifyRevocationPush } from "../../../src/protocol/revocation_push.ts";
import { CHAIN_START, chainLink } from "../../../src/protocol/statements.ts";
import {
  type VerificationReceipt,
  verificationReceiptSignBytes,
  verifyReceiptChain,
} from "../../../src/protocol/verification_receipt.ts";
import { readIdentity, startVault, type TestVault } from "../fixture.ts";
import { type Client, call } from "../http/caller_support.ts";

let vault: TestVault;
let api: Client;
let root: CreatedKey;
let agent: CreatedKey;
let service: { key_id: string; public_key: HybridPublicKey };

beforeAll(async () => {
  vault = await startVault();
  api = readIdentity(vault.home, "api");
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  agent = await makeAgent("acc-1");
  [service] = (await vault.home.sql("SELECT key_id, public_key FROM keys WHERE tenant = 'vault'")) as [
    typeof service,
  ];
});
afterAll(() => vault.close());

const makeAgent = (tenant: string) =>
  vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: ["data:read"] });
const now = () => unixSeconds(vault.clock.now());
const sign = async <T>(key: { key_id: string }, kind: string, body: object) =>
  (await call(`${vault.url}/v1/keys/${key.key_id}/sign/${kind}`, api, { method: "POST", body }))
    .body as unknown as T & { error?: { code: string } };
const code = async (answer: Promise<{ error?: { code: string } }>) => (await answer).error?.code;
const base64 = (byte: number) => Buffer.alloc(32, byte).toString("base64");

const list = (changed: object = {}, key = root) =>
  sign<RevocationList>(key, "revocation-list", {
    tenant: "acc-1",
    updated_at: now(),
    revoked_certs: ["cert-1"],
    ...changed,
  });

test("a revocation list names its key and never goes back in time", async () => {
  const first = await list();
  expect(await verifyRevocationList(first, root.public_key)).toBeUndefined();
  expect(await verifyRevocationList(await list(), root.public_key)).toBeUndefined();
  expect(await code(list({ revoked_certs: [] }))).toBe("policy_violation");
  expect(await code(list({ updated_at: now() - 1, revoked_certs: [] }))).toBe("policy_violation");
  expect(await code(list({ updated_at: now() + 61 }))).toBe("policy_violation");
  expect(await code(list({ updated_at: now() + 60, revoked_certs: [] }))).toBeUndefined();
  expect(await code(list({ issuer_id: agent.key_id }))).toBe("invalid_request");
  expect(await code(list({}, agent))).toBe("purpose_mismatch");
  expect(await code(list({ tenant: "acc-2" }))).toBe("key_not_found");
});

test("revocation pushes count 1, 2, 3 with no number twice and none left out, whatever races", async () => {
  const push = (seq_no: number, entries = [`cert-${seq_no}`]) =>
    sign<RevocationPush>(root, "revocation-push", { tenant: "acc-1", seq_no, entries, pushed_at: now() });
  expect(await code(push(2))).toBe("policy_violation");
  expect(await verifyRevocationPush(await push(1), root.public_key, 0)).toBeUndefined();
  expect(await code(push(3))).toBe("policy_violation");
  const racing = await Promise.all(["a", "b", "c"].map((entry) => push(2, [entry])));
  const signed = racing.filter((answer) => answer.error === undefined);
  expect(signed).toHaveLength(1);
  expect(await code(push(2, signed[0]!.entries))).toBeUndefined();
  expect(await code(push(1))).toBe("policy_violation");
  expect(await code(push(3))).toBeUndefined();
});

test("a verifier's receipts are a chain, each verifier's its own; a lost answer is given again", async () => {
  const receipt = (prev_hash: string, changed: object = {}) =>
    sign<VerificationReceipt>(service, "receipt", {
      bundle_hash: base64(1),
      decision: "allow",
      verified_at: now(),
      verifier_id: "verifier-1",
      prev_hash,
      ...changed,
    });
  expect(await code(receipt(base64(9)))).toBe("policy_violation");
  const first = await receipt(CHAIN_START);
  expect(await code(receipt(CHAIN_START))).toBeUndefined();
  expect(await code(receipt(CHAIN_START, { decision: "deny" }))).toBe("policy_violation");
  const second = await receipt(chainLink(verificationReceiptSignBytes(first)), { decision: "deny" });
  expect(await verifyReceiptChain([first, second], service.public_key)).toBeUndefined();
  expect(await code(receipt(CHAIN_START, { verifier_id: "verifier-2" }))).toBeUndefined();
  const next = chainLink(verificationReceiptSignBytes(second));
  const granted_scope = ["meeting:speak", "custom:\u{1f600}", "custom:\ue000"];
  const third = await receipt(next, { granted_scope });
  expect(third.granted_scope).toEqual(["custom:\ue000", "custom:\u{1f600}", "meeting:speak"]);
  expect(await verifyReceiptChain([first, second, third], service.public_key)).toBeUndefined();
  const last = chainLink(verificationReceiptSignBytes(third));
  expect(await code(receipt(last, { verified_at: now() - 61 }))).toBe("policy_violation");
  expect(await code(receipt(last, { verifier_pub: root.public_key }))).toBe("invalid_request");
});

test("a log's checkpoints grow, with one root for each size, and their body is the vault's", async () => {
  const checkpoint = (size: number, root: string, origin = "log.example/acc") =>
    sign<{ body: string; signature: HybridSignature }>(service, "checkpoint", { origin, size, root });
  const first = await checkpoint(5, base64(1));
  expect(first.body).toBe(`log.example/acc\n5\n${base64(1)}\n`);
  expect(await verifyHybrid(service.public_key, Buffer.from(first.body), first.signature)).toBe(true);
  expect(await code(checkpoint(5, base64(1)))).toBeUndefined();
  expect(await code(checkpoint(5, base64(2)))).toBe("policy_violation");
  expect(await code(checkpoint(4, base64(1)))).toBe("policy_violation");
  expect(await code(checkpoint(6, base64(2)))).toBeUndefined();
  expect(await code(checkpoint(1, base64(3), "log.example/other"))).toBeUndefined();
  for (const origin of ["a\nb", "a b", "", "https://x", "{}"])
    expect(await code(checkpoint(9, base64(4), origin)), origin).toBe("invalid_request");
  expect(await code(sign(root, "checkpoint", { origin: "x", size: 1, root: base64(1) }))).toBe(
    "key_not_found",
  );
});

test("a rotation is signed by both keys of one tenant and purpose, or by neither", async () => {
  const [fresh, foreign] = [await makeAgent("acc-1"), await makeAgent("acc-2")];
  const rotate = (new_id: string, changed: object = {}, key = agent) =>
    sign<KeyRotationStatement>(key, "key-rotation", {
      tenant: "acc-1",
      new_id,
      rotated_at: now(),
      reason: "routine",
      ...changed,
    });
  expect(await verifyKeyRotation(await rotate(fresh.key_id))).toBeUndefined();
  for (const id of [foreign.key_id, root.key_id, agent.key_id, "f".repeat(32), service.key_id])
    expect(await code(rotate(id)), id).toBe("policy_violation");
  expect(await code(rotate(fresh.key_id, { rotated_at: now() - 61 }))).toBe("policy_violation");
  expect(await code(rotate(fresh.key_id, { reason: "because" }))).toBe("invalid_request");
  expect(await code(rotate(fresh.key_id, { tenant: "acc-2" }))).toBe("key_not_found");
  await call(`${vault.url}/v1/keys/${fresh.key_id}/disable`, api, {
    method: "POST",
    body: { tenant: "acc-1" },
  });
  expect(await code(rotate(fresh.key_id))).toBe("key_disabled");
});

test("every statement is on record by the digest of what was signed, and sequences outlive a restart", async () => {
  vault = await vault.restart();
  const rows = await vault.home.sql<{ digest: Buffer }>(
    "SELECT digest FROM audit WHERE statement = 'checkpoint' AND outcome = 'granted' ORDER BY seq LIMIT 1",
  );
  expect(rows[0]?.digest).toEqual(hash("sha256", `log.example/acc\n5\n${base64(1)}\n`, "buffer"));
  const back = { origin: "log.example/acc", size: 5, root: base64(1) };
  expect(await code(sign(service, "checkpoint", back))).toBe("policy_violation");
  expect((await vault.verifyAudit()).intact).toBe(true);
});
