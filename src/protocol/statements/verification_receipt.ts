import { canonicalBytes, compareUtf8 } from "../encoding/canonical.ts";
import { BINDING_BYTES, MAX_SCOPE_LENGTH_BYTES, PROTOCOL_VERSION } from "../encoding/constants.ts";
import {
  base64,
  type Decoder,
  identifier,
  integer,
  list,
  nonEmpty,
  object,
  text,
  timestamp,
} from "../encoding/fields.ts";
import { parseJson } from "../encoding/json.ts";
import {
  equalPublicKeys,
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  publicKey,
  signature,
} from "../keys/hybrid.ts";
import {
  CHAIN_START,
  chainLink,
  type StatementViolation,
  sign,
  statementSignatureViolation,
} from "./statement.ts";

/** A verifier's decision about a bundle, chained to the verifier's previous receipt (wire format §4). */
export type VerificationReceipt = {
  version: number;
  /** Base64 of the hash that `bundleHash` returns for the bundle. */
  bundle_hash: string;
  decision: string;
  /** Unix seconds. */
  verified_at: number;
  verifier_id: string;
  verifier_pub: HybridPublicKey;
  /** Base64 of the SHA-256 of the previous receipt's signed bytes. In the first receipt, 32 zero bytes. */
  prev_hash: string;
  /** Absent if empty, like the other optional fields. */
  agent_id?: string;
  human_id?: string;
  error_reason?: string;
  /** Sorted by code point. */
  granted_scope?: string[];
  signature: HybridSignature;
};

/** A receipt before it is signed. */
export type VerificationReceiptFields = Omit<VerificationReceipt, "signature">;

const decodeFields: Decoder<VerificationReceipt> = object(
  {
    version: integer(),
    bundle_hash: base64(BINDING_BYTES),
    decision: identifier,
    verified_at: timestamp,
    verifier_id: identifier,
    verifier_pub: publicKey,
    prev_hash: base64(BINDING_BYTES),
    signature,
  },
  {
    agent_id: identifier,
    human_id: identifier,
    error_reason: nonEmpty(text()),
    granted_scope: nonEmpty(list(text(MAX_SCOPE_LENGTH_BYTES))),
  },
);

/** Parses and decodes an untrusted receipt strictly (wire format §5). Throws `ProtocolError`. */
export function decodeVerificationReceipt(bytes: Uint8Array): VerificationReceipt {
  return decodeFields(parseJson(bytes));
}

/**
 * Returns the bytes that the verifier signs: canonical JSON of all fields except the signature. Empty
 * optional fields are omitted, and scopes are sorted.
 */
export function verificationReceiptSignBytes(fields: VerificationReceiptFields): Uint8Array {
  const { version, bundle_hash, decision, verified_at, verifier_id, verifier_pub, prev_hash } = fields;
  return canonicalBytes({
    agent_id: fields.agent_id || undefined,
    bundle_hash,
    decision,
    error_reason: fields.error_reason || undefined,
    granted_scope: fields.granted_scope?.length ? sorted(fields.granted_scope) : undefined,
    human_id: fields.human_id || undefined,
    prev_hash,
    verified_at,
    verifier_id,
    verifier_pub,
    version,
  });
}

/** Signs the receipt that follows `previous`, or the first one. Omits empty fields and sorts the scopes. */
export function issueVerificationReceipt(
  fields: Omit<VerificationReceiptFields, "prev_hash">,
  verifier: HybridPrivateKey,
  previous?: VerificationReceiptFields,
): Promise<VerificationReceipt> {
  const prev_hash = previous === undefined ? CHAIN_START : chainLink(verificationReceiptSignBytes(previous));
  return sign(canonicalReceipt({ ...fields, prev_hash }), verificationReceiptSignBytes, verifier);
}

/**
 * Returns why a receipt is not signed by `verifier`, or `undefined` if it is. The caller supplies the trusted
 * key. The key inside the receipt proves nothing.
 */
export async function verifyVerificationReceipt(
  receipt: VerificationReceipt,
  verifier: HybridPublicKey,
): Promise<StatementViolation | undefined> {
  if (receipt.version !== PROTOCOL_VERSION) {
    return { code: "version_mismatch", detail: `version ${receipt.version}` };
  }
  if (!equalPublicKeys(receipt.verifier_pub, verifier)) {
    return { code: "issuer_mismatch", detail: "the receipt carries another key than the verifier's" };
  }
  return statementSignatureViolation(verifier, verificationReceiptSignBytes(receipt), receipt.signature);
}

/** Checks all receipts of a verifier from the first one on, and that each is chained to the previous one. */
export async function verifyReceiptChain(
  receipts: readonly VerificationReceipt[],
  verifier: HybridPublicKey,
): Promise<StatementViolation | undefined> {
  let link = CHAIN_START;
  for (const [index, receipt] of receipts.entries()) {
    if (receipt.prev_hash !== link) {
      return { code: "broken_log", detail: `receipt ${index} does not follow the one before it` };
    }
    const violation = await verifyVerificationReceipt(receipt, verifier);
    if (violation !== undefined) return violation;
    link = chainLink(verificationReceiptSignBytes(receipt));
  }
  return undefined;
}

function canonicalReceipt(fields: VerificationReceiptFields): VerificationReceiptFields {
  const { agent_id, human_id, error_reason, granted_scope, ...required } = fields;
  return {
    ...required,
    ...(agent_id ? { agent_id } : {}),
    ...(human_id ? { human_id } : {}),
    ...(error_reason ? { error_reason } : {}),
    ...(granted_scope?.length ? { granted_scope: sorted(granted_scope) } : {}),
  };
}

function sorted(scopes: readonly string[]): string[] {
  return [...scopes].sort(compareUtf8);
}
