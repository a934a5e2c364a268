import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { type HybridPublicKey, keyId, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import type { Attestation, Purpose } from "../db/rows.ts";

/** An attestation before it is signed. */
export type AttestationFields = Omit<Attestation, "signature">;

/** The bytes the service key signs: canonical JSON of all fields but the signature. */
export function attestationSignBytes(fields: AttestationFields): Uint8Array {
  const { type, version, key_id, public_key, tenant, purpose, created_at, attested_by } = fields;
  return canonicalBytes({ type, version, key_id, public_key, tenant, purpose, created_at, attested_by });
}

/** What an attestation must say to hold for a key. */
export type AttestedKey = { keyId: string; publicKey: HybridPublicKey; tenant: string; purpose: Purpose };

/** Whether `attestation` is `service`'s word on exactly this key. */
export async function verifyAttestation(
  attestation: Attestation,
  key: AttestedKey,
  service: HybridPublicKey,
): Promise<boolean> {
  if (
    attestation.type !== "key_attestation" ||
    attestation.version !== 1 ||
    attestation.key_id !== key.keyId ||
    attestation.tenant !== key.tenant ||
    attestation.purpose !== key.purpose ||
    attestation.public_key.ed25519 !== key.publicKey.ed25519 ||
    attestation.public_key.ml_dsa_65 !== key.publicKey.ml_dsa_65 ||
    attestation.attested_by !== keyId(service) ||
    keyId(key.publicKey) !== key.keyId
  ) {
    return false;
  }
  return verifyHybrid(service, attestationSignBytes(attestation), attestation.signature);
}
