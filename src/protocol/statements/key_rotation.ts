import { canonicalBytes } from "../encoding/canonical.ts";
import { PROTOCOL_VERSION } from "../encoding/constants.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { type Decoder, identifier, integer, object, timestamp } from "../encoding/fields.ts";
import { parseJson } from "../encoding/json.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  keyId,
  publicKey,
  signature,
  signatureViolation,
  signHybrid,
} from "../keys/hybrid.ts";
import type { StatementViolation } from "./statement.ts";

/** Why a key is replaced (wire format §4). */
export const ROTATION_REASONS = [
  "routine",
  "compromise_suspected",
  "device_lost",
  "recovery",
  "other",
] as const;

/** One of {@link ROTATION_REASONS}. */
export type RotationReason = (typeof ROTATION_REASONS)[number];

/** Declares that a new key replaces an old key. Both keys sign it (wire format §4). */
export type KeyRotationStatement = {
  version: number;
  old_id: string;
  old_pub_key: HybridPublicKey;
  new_id: string;
  new_pub_key: HybridPublicKey;
  /** Unix seconds. */
  rotated_at: number;
  reason: RotationReason;
  signature_old: HybridSignature;
  signature_new: HybridSignature;
};

/** A statement before it is signed. */
export type KeyRotationFields = Omit<KeyRotationStatement, "signature_old" | "signature_new">;

const rotationReason: Decoder<RotationReason> = (value) => {
  const reason = ROTATION_REASONS.find((known) => known === value);
  if (reason === undefined) throw new ProtocolError("wrong_type", "not a reason for a rotation");
  return reason;
};

const decodeFields: Decoder<KeyRotationStatement> = object({
  version: integer(),
  old_id: identifier,
  old_pub_key: publicKey,
  new_id: identifier,
  new_pub_key: publicKey,
  rotated_at: timestamp,
  reason: rotationReason,
  signature_old: signature,
  signature_new: signature,
});

/** Parses and decodes an untrusted statement strictly (wire format §5). Throws `ProtocolError`. */
export function decodeKeyRotation(bytes: Uint8Array): KeyRotationStatement {
  return decodeFields(parseJson(bytes));
}

/** Returns the bytes that both keys sign: canonical JSON of all fields except the two signatures. */
export function keyRotationSignBytes(fields: KeyRotationFields): Uint8Array {
  const { version, old_id, old_pub_key, new_id, new_pub_key, rotated_at, reason } = fields;
  return canonicalBytes({ new_id, new_pub_key, old_id, old_pub_key, reason, rotated_at, version });
}

/** Signs a statement with both the old key and the new one. */
export async function issueKeyRotation(
  fields: KeyRotationFields,
  oldKey: HybridPrivateKey,
  newKey: HybridPrivateKey,
): Promise<KeyRotationStatement> {
  const bytes = keyRotationSignBytes(fields);
  const [signature_old, signature_new] = await Promise.all([
    signHybrid(oldKey, bytes),
    signHybrid(newKey, bytes),
  ]);
  return { ...fields, signature_old, signature_new };
}

/**
 * Returns why a rotation is not valid, or `undefined` if it is valid: version 1, two different keys with
 * their own ids, and two valid signatures. The caller must check that the old key is the current key.
 */
export async function verifyKeyRotation(
  statement: KeyRotationStatement,
): Promise<StatementViolation | undefined> {
  const { version, old_id, old_pub_key, new_id, new_pub_key } = statement;
  if (version !== PROTOCOL_VERSION) {
    return { code: "version_mismatch", detail: `unsupported version ${version}` };
  }
  if (keyId(old_pub_key) !== old_id) {
    return { code: "issuer_mismatch", detail: "old_id does not match old_pub_key" };
  }
  if (keyId(new_pub_key) !== new_id) {
    return { code: "issuer_mismatch", detail: "new_id does not match new_pub_key" };
  }
  if (old_id === new_id) return { code: "same_key", detail: "old_id and new_id must differ" };
  const bytes = keyRotationSignBytes(statement);
  const old = await signatureViolation(old_pub_key, bytes, statement.signature_old);
  if (old !== undefined) return { code: "bad_signature_old", detail: `old signature invalid: ${old}` };
  const fresh = await signatureViolation(new_pub_key, bytes, statement.signature_new);
  return fresh === undefined
    ? undefined
    : { code: "bad_signature_new", detail: `new signature invalid: ${fresh}` };
}

/** Returns the reason for refusing a rotation, in the published wording. */
export function rotationReasonOf({ code, detail }: StatementViolation): string {
  return code === "version_mismatch" ? `${code}: ${detail}` : detail;
}
