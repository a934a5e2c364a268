import type { HybridSignature } from "../protocol/hybrid.ts";
import type { KeyRotationStatement, RotationReason } from "../protocol/key_rotation.ts";
import type { RevocationList } from "../protocol/revocation_list.ts";
import type { RevocationPush } from "../protocol/revocation_push.ts";
import type { VerificationReceipt, VerificationReceiptFields } from "../protocol/verification_receipt.ts";
import type { KeyReference } from "./client.ts";
import type { Transport } from "./transport.ts";

/** A log's head as a C2SP checkpoint: `body` is what is signed, three lines made of the other fields. */
export type Checkpoint = {
  origin: string;
  size: number;
  root: string;
  body: string;
  signature: HybridSignature;
};

/**
 * Statements that follow one another, each signed by the key it is about. The vault keeps the place of the last one: what does not follow
 * it is refused with `policy_violation`, and the last one itself is signed again if it is asked for in time. Times are Unix seconds within
 * 60 s of the vault's clock. Calls reject as {@link import("./client.ts").VaultClient}'s do.
 */
export type VaultStatements = {
  /** All certificates that an account has revoked, 50,000 at most; `updated_at` is later than the last list's. */
  revocationList(
    root: KeyReference,
    list: Pick<RevocationList, "updated_at" | "revoked_certs">,
  ): Promise<RevocationList>;
  /** Certificates revoked since the last push, 1,000 at most; `seq_no` is 1, then one more each time. */
  revocationPush(
    root: KeyReference,
    push: Pick<RevocationPush, "seq_no" | "entries" | "pushed_at">,
  ): Promise<RevocationPush>;
  /** That another key of the same tenant and purpose takes this one's place, signed by both. */
  keyRotation(
    old: KeyReference,
    rotation: { new_id: string; rotated_at: number; reason: RotationReason },
  ): Promise<KeyRotationStatement>;
  /**
   * What was decided about a bundle, signed by the vault's service key, whose id every attestation names as `attested_by`; `prev_hash` is
   * SHA-256 of the verifier's receipt before, zeros in the first.
   */
  receipt(
    serviceKeyId: string,
    receipt: Omit<VerificationReceiptFields, "version" | "verifier_pub">,
  ): Promise<VerificationReceipt>;
  /** A log's head, by the same key: an origin's log never shrinks, and has one root for each size. */
  checkpoint(serviceKeyId: string, head: Pick<Checkpoint, "origin" | "size" | "root">): Promise<Checkpoint>;
};

/** Statements signed over this transport. */
export function createStatements(transport: Pick<Transport, "call">): VaultStatements {
  const sign = <T>(keyId: string, kind: string, body: object): Promise<T> =>
    transport.call({ method: "POST", path: `/v1/keys/${encodeURIComponent(keyId)}/sign/${kind}`, body });
  const own =
    <Fields extends object, T>(kind: string) =>
    ({ tenant, keyId }: KeyReference, fields: Fields): Promise<T> =>
      sign(keyId, kind, { tenant, ...fields });
  return {
    revocationList: own("revocation-list"),
    revocationPush: own("revocation-push"),
    keyRotation: own("key-rotation"),
    receipt: (keyId, fields) => sign(keyId, "receipt", fields),
    checkpoint: (keyId, fields) => sign(keyId, "checkpoint", fields),
  };
}
