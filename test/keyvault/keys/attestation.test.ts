import { expect, test } from "vitest";
import {
  type AttestationFields,
  attestationSignBytes,
  verifyAttestation,
} from "../../../keyvault/keys/store.ts";
import {
  generateSeeds,
  importSeeds,
  keyId,
  publicKeyOf,
  signHybrid,
} from "../../../src/protocol/keys/hybrid.ts";

const service = importSeeds(generateSeeds());
const [own, other] = [publicKeyOf(importSeeds(generateSeeds())), publicKeyOf(importSeeds(generateSeeds()))];
const KEY = { keyId: keyId(own), publicKey: own, tenant: "acc-1", purpose: "agent" } as const;

async function attest(change: Partial<AttestationFields> = {}, signer = service) {
  const fields: AttestationFields = {
    type: "key_attestation",
    version: 1,
    key_id: KEY.keyId,
    public_key: own,
    tenant: "acc-1",
    purpose: "agent",
    created_at: 1_800_000_000,
    attested_by: keyId(publicKeyOf(service)),
    ...change,
  };
  return { ...fields, signature: await signHybrid(signer, attestationSignBytes(fields)) };
}

const holds = async (change: Partial<AttestationFields> = {}, key = {}, signer = service) =>
  verifyAttestation(await attest(change, signer), { ...KEY, ...key }, publicKeyOf(service));

test("an attestation is valid for the key it was signed for", async () => {
  expect(await holds()).toBe(true);
});

test.each<[string, Partial<AttestationFields>]>([
  ["type", { type: "other" as "key_attestation" }],
  ["version", { version: 2 as 1 }],
  ["key id", { key_id: keyId(other) }],
  ["Ed25519 half", { public_key: { ...own, ed25519: other.ed25519 } }],
  ["ML-DSA-65 half", { public_key: { ...own, ml_dsa_65: other.ml_dsa_65 } }],
  ["tenant", { tenant: "acc-2" }],
  ["purpose", { purpose: "account_root" }],
  ["attester", { attested_by: keyId(other) }],
])("an attestation that the service key signed is not valid with a different %s", async (_, change) => {
  expect(await holds(change)).toBe(false);
});

test("an attestation is not valid for a key whose id does not match its public key", async () => {
  expect(await holds({ key_id: keyId(other) }, { keyId: keyId(other) })).toBe(false);
  expect(await holds({ public_key: other }, { publicKey: other })).toBe(false);
});

test("an attestation is not valid from a different signer or with an altered time", async () => {
  expect(await holds({}, {}, importSeeds(generateSeeds()))).toBe(false);
  const attestation = await attest();
  const later = { ...attestation, created_at: attestation.created_at + 1 };
  expect(await verifyAttestation(later, KEY, publicKeyOf(service))).toBe(false);
});
