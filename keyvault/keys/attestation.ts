import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import {
  type HybridPublicKey,
  type HybridSignature,
  keyId,
  verifyHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import type { Purpose } from "../db/rows.ts";

/** The vault's word that it made a key and keeps it: binds key, tenant and purpose. Signed by the vault's service key. */
export type Attestation = {
  type: "key_attestation";
  version: 1;
  key_id: string;
  public_key: HybridPublicKey;
  tenant: string;
  purpose: Purpose;
  /** Unix seconds. */
  created_at: number;
  /** Key id of the service key. */
  attested_by: string;
  signature: HybridSignature;
};

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
