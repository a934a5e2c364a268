import {
  type KeyRotationFields,
  type KeyRotationStatement,
  keyRotationSignBytes,
  type RotationReason,
} from "../../src/protocol/key_rotation.ts";
import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Key, Reading } from "../keys/store.ts";
import { CLOCK_TOLERANCE_SECONDS, type SigningParts, signStatement, telling } from "./statement.ts";

/**
 * Says that another key of the same tenant and purpose takes a key's place, signed by both. The vault fills in both public keys;
 * `rotated_at` is within 60 s of its clock. Each of the two signatures has its record; only both together leave the vault.
 */
export type SignRotation = (
  caller: Caller,
  keyId: string,
  request: { tenant: string; new_id: string; rotated_at: number; reason: RotationReason },
) => Promise<KeyRotationStatement | Refusal>;

/** Signing rotations on these parts. */
export function createRotationSigning(parts: SigningParts): SignRotation {
  return async (caller, oldId, { tenant, new_id, rotated_at, reason }) => {
    const about = { caller, statement: "key_rotation", detail: { old_id: oldId, new_id, reason } } as const;
    const oldKey = await telling(parts.journal, { ...about, keyId: oldId }, () =>
      parts.store.find(oldId, tenant),
    );
    const call = {
      ...about,
      tenant,
      purpose: oldKey?.purpose === "agent" ? "agent" : "account_root",
    } as const;

    const decide = async (now: number, reading: Reading): Promise<KeyRotationFields | Refusal> => {
      const find = (keyId: string) => reading.find(keyId, tenant);
      const [old, fresh] = await Promise.all([find(oldId), find(new_id)]);
      if (old === undefined || fresh === undefined) return UNFIT;
      const fault =
        mismatch(old, fresh) ?? (Math.abs(now - rotated_at) > CLOCK_TOLERANCE_SECONDS ? LATE : undefined);
      const keys = { old_pub_key: old.publicKey, new_pub_key: fresh.publicKey };
      return fault ?? { version: 1, old_id: oldId, new_id, ...keys, rotated_at, reason };
    };
    const sign = (keyId: string) =>
      signStatement(parts, { ...call, keyId }, async (_, now, reading) => {
        const fields = await decide(now, reading);
        return isRefusal(fields) ? fields : keyRotationSignBytes(fields);
      });

    const signedOld = await sign(oldId);
    if (isRefusal(signedOld)) return signedOld;
    const signedNew = await sign(new_id);
    if (isRefusal(signedNew)) return signedNew;
    return {
      version: 1,
      old_id: oldId,
      old_pub_key: signedOld.key.publicKey,
      new_id,
      new_pub_key: signedNew.key.publicKey,
      rotated_at,
      reason,
      signature_old: signedOld.signature,
      signature_new: signedNew.signature,
    };
  };
}

const UNFIT = refuse("policy_violation", "The new key is no key of this tenant with the same purpose");

const LATE = refuse(
  "policy_violation",
  `rotated_at is more than ${CLOCK_TOLERANCE_SECONDS} s away from the vault's clock`,
);

function mismatch(old: Key, fresh: Key): Refusal | undefined {
  if (old.keyId === fresh.keyId) return refuse("policy_violation", "A key cannot take its own place");
  if (fresh.purpose !== old.purpose) return UNFIT;
  return fresh.state === "active" ? undefined : refuse("key_disabled", "The new key is disabled");
}
