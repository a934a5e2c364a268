import { hash } from "node:crypto";
import { BINDING_BYTES } from "../encoding/constants.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  keyId,
  signatureViolation,
  signHybrid,
} from "../keys/hybrid.ts";

/**
 * All reasons for refusing a signed statement.
 *
 * - `version_mismatch`: not version 1
 * - `issuer_mismatch`: names a different key than expected
 * - `bad_signature`, `bad_signature_old`, `bad_signature_new`: a hybrid signature that does not verify
 * - `seq_replay`, `seq_skip`: not the next statement of its sequence
 * - `broken_log`: does not contain the hash of the previous entry
 * - `same_key`: a rotation from a key to itself
 */
export type StatementViolationCode =
  | "version_mismatch"
  | "issuer_mismatch"
  | "bad_signature"
  | "bad_signature_old"
  | "bad_signature_new"
  | "seq_replay"
  | "seq_skip"
  | "broken_log"
  | "same_key";

/** A reason to refuse a statement. */
export type StatementViolation = {
  code: StatementViolationCode;
  detail: string;
};

/** Adds a hybrid signature over `signBytes(fields)` to `fields`. */
export async function sign<F extends object>(
  fields: F,
  signBytes: (fields: F) => Uint8Array,
  key: HybridPrivateKey,
): Promise<F & { signature: HybridSignature }> {
  return { ...fields, signature: await signHybrid(key, signBytes(fields)) };
}

/** Returns `issuer_mismatch` unless `id` is the identifier of `key` (wire format §2). */
export function issuerViolation(id: string, key: HybridPublicKey): StatementViolation | undefined {
  return keyId(key) === id
    ? undefined
    : { code: "issuer_mismatch", detail: "the statement names another key than the expected one" };
}

/** Returns `bad_signature` unless both halves of `signature` are valid over `bytes` (wire format §2). */
export async function statementSignatureViolation(
  key: HybridPublicKey,
  bytes: Uint8Array,
  signature: HybridSignature,
): Promise<StatementViolation | undefined> {
  const detail = await signatureViolation(key, bytes, signature);
  return detail === undefined ? undefined : { code: "bad_signature", detail };
}

/** The previous hash in the first entry of a hash chain: 32 zero bytes, in base64. */
export const CHAIN_START = Buffer.alloc(BINDING_BYTES).toString("base64");

/** Returns the previous hash for the next entry of a hash chain: SHA-256 of the signed bytes, in base64. */
export function chainLink(signedBytes: Uint8Array): string {
  return hash("sha256", signedBytes, "base64");
}
