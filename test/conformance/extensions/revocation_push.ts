import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";
import {
  type Decoder,
  identifier,
  integer,
  list,
  object,
  timestamp,
} from "../../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  signature,
} from "../../../src/protocol/keys/hybrid.ts";
import {
  issuerViolation,
  type StatementViolation,
  sign,
  statementSignatureViolation,
} from "../../../src/protocol/statements/statement.ts";

/** Certificates that an issuer has revoked since its last push. The fields are those of wire format §4. */
export type RevocationPush = {
  issuer_id: string;
  /** Starts at 1 for each issuer and increases by one with each push. */
  seq_no: number;
  /** Never null, but may be empty. */
  entries: string[];
  /** Unix seconds. */
  pushed_at: number;
  signature: HybridSignature;
};

export type RevocationPushFields = Omit<RevocationPush, "signature">;

const decodeFields: Decoder<RevocationPush> = object({
  issuer_id: identifier,
  seq_no: integer(1),
  entries: list(identifier),
  pushed_at: timestamp,
  signature,
});

/** Parses and decodes an untrusted push strictly (wire format §5). Throws `ProtocolError`. */
export function decodeRevocationPush(bytes: Uint8Array): RevocationPush {
  return decodeFields(parseJson(bytes));
}

/** Returns the bytes that the issuer signs: canonical JSON of all fields except the signature. */
export function revocationPushSignBytes({
  issuer_id,
  seq_no,
  entries,
  pushed_at,
}: RevocationPushFields): Uint8Array {
  return canonicalBytes({ entries, issuer_id, pushed_at, seq_no });
}

export function issueRevocationPush(
  fields: RevocationPushFields,
  issuer: HybridPrivateKey,
): Promise<RevocationPush> {
  return sign(fields, revocationPushSignBytes, issuer);
}

/**
 * Returns why a push is not the next push of `issuer`, or `undefined` if it is. `lastSeqNo` is the number of
 * the last accepted push, or 0 before the first. Without it, the sequence is not checked.
 */
export async function verifyRevocationPush(
  push: RevocationPush,
  issuer: HybridPublicKey,
  lastSeqNo?: number,
): Promise<StatementViolation | undefined> {
  return (
    issuerViolation(push.issuer_id, issuer) ??
    (await statementSignatureViolation(issuer, revocationPushSignBytes(push), push.signature)) ??
    sequenceViolation(push.seq_no, lastSeqNo)
  );
}

function sequenceViolation(seqNo: number, last: number | undefined): StatementViolation | undefined {
  if (last === undefined || seqNo === last + 1) return undefined;
  return seqNo <= last
    ? { code: "seq_replay", detail: `seq_no ${seqNo} already seen (last=${last})` }
    : { code: "seq_skip", detail: `seq_no ${seqNo} skips pushes (last=${last})` };
}
