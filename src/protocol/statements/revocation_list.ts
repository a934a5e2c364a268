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

/** All certificates an issuer has revoked, as of a time: wire format §4, field for field. */
export type RevocationList = {
  issuer_id: string;
  /** Unix seconds. */
  updated_at: number;
  revoked_certs: string[];
  signature: HybridSignature;
};

/** Certificates that the lists of this service have at most. The wire format sets no bound. */
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
 * Reads an untrusted list strictly (wire format §5). Throws `ProtocolError`.
 *
 * @param limits `maxBytes`: how long a list of this issuer may be; as long as a bundle when left out, which
 * is enough for some 3000 certificates
 */
export function decodeRevocationList(
  bytes: Uint8Array,
  { maxBytes = MAX_PROOF_BUNDLE_BYTES }: { maxBytes?: number } = {},
): RevocationList {
  return decodeFields(parseJson(bytes, { bytes: maxBytes, depth: MAX_JSON_NESTING_DEPTH }));
}

/** The bytes that the issuer signs: canonical JSON of all fields but the signature. */
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
 * Why a list is not `issuer`'s; `undefined` when it is. Whether it is recent enough is the caller's to judge
 * by `updated_at`.
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
