import { canonicalBytes } from "../encoding/canonical.ts";
import { MAX_JSON_NESTING_DEPTH, MAX_PROOF_BUNDLE_BYTES } from "../encoding/constants.ts";
import { type Decoder, identifier, list, object, timestamp } from "../encoding/fields.ts";
import { parseJson } from "../encoding/json.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  signature,
} from "../keys/hybrid.ts";
import { issuerViolation, type StatementViolation, sign, statementSignatureViolation } from "./statement.ts";

/** All certificates that an issuer has revoked until `updated_at` (wire format §4). */
export type RevocationList = {
  issuer_id: string;
  /** Unix seconds. */
  updated_at: number;
  revoked_certs: string[];
  signature: HybridSignature;
};

/** Maximum number of certificates in a list of this service. The wire format sets no limit. */
export const MAX_CERTS_PER_REVOCATION_LIST = 50_000;

/** A list before it is signed. */
export type RevocationListFields = Omit<RevocationList, "signature">;

const decodeFields: Decoder<RevocationList> = object({
  issuer_id: identifier,
  updated_at: timestamp,
  revoked_certs: list(identifier),
  signature,
});

/**
 * Parses and decodes an untrusted list strictly (wire format §5). Throws `ProtocolError`. `maxBytes` defaults
 * to the maximum size of a bundle, which is enough for about 3,000 certificates.
 */
export function decodeRevocationList(
  bytes: Uint8Array,
  { maxBytes = MAX_PROOF_BUNDLE_BYTES }: { maxBytes?: number } = {},
): RevocationList {
  return decodeFields(parseJson(bytes, { bytes: maxBytes, depth: MAX_JSON_NESTING_DEPTH }));
}

/** Returns the bytes that the issuer signs: canonical JSON of all fields except the signature. */
export function revocationListSignBytes({
  issuer_id,
  updated_at,
  revoked_certs,
}: RevocationListFields): Uint8Array {
  return canonicalBytes({ issuer_id, revoked_certs, updated_at });
}

/** Signs a list with its issuer's key. */
export function issueRevocationList(
  fields: RevocationListFields,
  issuer: HybridPrivateKey,
): Promise<RevocationList> {
  return sign(fields, revocationListSignBytes, issuer);
}

/**
 * Returns why a list is not signed by `issuer`, or `undefined` if it is. The caller must judge by
 * `updated_at` whether the list is recent enough.
 */
export async function verifyRevocationList(
  list: RevocationList,
  issuer: HybridPublicKey,
): Promise<StatementViolation | undefined> {
  return (
    issuerViolation(list.issuer_id, issuer) ??
    (await statementSignatureViolation(issuer, revocationListSignBytes(list), list.signature))
  );
}
