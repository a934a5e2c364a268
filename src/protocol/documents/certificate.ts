import {
  type Constraint,
  canonicalConstraint,
  constraintViolation,
  issuingConflict,
} from "../constraints/constraints.ts";
import { decodeConstraint } from "../constraints/decoding.ts";
import { canonicalBytes, canonicalJson } from "../encoding/canonical.ts";
import {
  MAX_CONSTRAINTS_PER_CERT,
  MAX_JSON_NESTING_DEPTH,
  MAX_PROOF_BUNDLE_BYTES,
  MAX_SCOPE_LENGTH_BYTES,
  MAX_SCOPES_PER_CERT,
  PROTOCOL_VERSION,
} from "../encoding/constants.ts";
import { ProtocolError } from "../encoding/errors.ts";
import {
  type Decoder,
  identifier,
  integer,
  type KeepingDecoder,
  keeping,
  list,
  object,
  text,
} from "../encoding/fields.ts";
import { type JsonValue, parseJson } from "../encoding/json.ts";
import { type HybridPublicKey, type HybridSignature, keyId, publicKey, signature } from "../keys/hybrid.ts";
import { invalidScopes } from "./scopes.ts";

/** Certificate with which an issuer delegates authority to a subject. Wire format §4 defines the fields. */
export type DelegationCert = {
  cert_id: string;
  version: number;
  issuer_id: string;
  issuer_pub_key: HybridPublicKey;
  subject_id: string;
  subject_pub_key: HybridPublicKey;
  scope: string[];
  /** Always present, but may be empty. */
  constraints: Constraint[];
  /** Unix seconds. The first valid second. */
  issued_at: number;
  /** Unix seconds. The last valid second, or `NO_EXPIRY_SENTINEL` if valid until revoked. */
  expires_at: number;
  signature: HybridSignature;
};

/** A certificate before it is signed. */
export type DelegationFields = Omit<DelegationCert, "signature">;

const FIELDS = {
  cert_id: identifier,
  version: integer(),
  issuer_id: identifier,
  issuer_pub_key: publicKey,
  subject_id: identifier,
  subject_pub_key: publicKey,
  scope: list(text(MAX_SCOPE_LENGTH_BYTES), MAX_SCOPES_PER_CERT),
  constraints: list(decodeConstraint, MAX_CONSTRAINTS_PER_CERT),
  issued_at: integer(),
  expires_at: integer(),
};

/** Bytes and nesting levels for the rest of a bundle, with one key and two signatures (wire format §1). */
const BUNDLE_OVERHEAD = { bytes: 12_800, depth: 2 };
const ISSUED_LIMITS = {
  bytes: MAX_PROOF_BUNDLE_BYTES - BUNDLE_OVERHEAD.bytes,
  depth: MAX_JSON_NESTING_DEPTH - BUNDLE_OVERHEAD.depth,
};

const unsigned: Decoder<DelegationFields> = object(FIELDS);

const decodeCertificate: Decoder<DelegationCert> = object({ ...FIELDS, signature });
const sources = new WeakMap<DelegationCert, JsonValue>();

/** Decodes a certificate from a strictly parsed document. Checks fields and limits only (wire format §5). */
export const certificate: KeepingDecoder<DelegationCert> = keeping((value) => {
  const decoded = decodeCertificate(value);
  sources.set(decoded, value);
  return decoded;
});

/** Returns the parsed value from which a certificate was decoded, if it was decoded. */
export function sourceOf(decoded: DelegationCert): JsonValue | undefined {
  return sources.get(decoded);
}

/** Parses and decodes an untrusted certificate strictly (wire format §5). Throws {@link ProtocolError}. */
export function decodeDelegationCert(bytes: Uint8Array): DelegationCert {
  return certificate(parseJson(bytes));
}

/**
 * Returns the bytes that an issuer signs: canonical JSON of all fields but the signature (wire format §4).
 */
export function delegationSignBytes(certificate: DelegationFields): Uint8Array {
  return canonicalBytes({
    cert_id: certificate.cert_id,
    constraints: certificate.constraints.map(canonicalConstraint),
    expires_at: certificate.expires_at,
    issued_at: certificate.issued_at,
    issuer_id: certificate.issuer_id,
    issuer_pub_key: certificate.issuer_pub_key,
    scope: certificate.scope,
    subject_id: certificate.subject_id,
    subject_pub_key: certificate.subject_pub_key,
    version: certificate.version,
  });
}

/** Returns a certificate's canonical JSON, including its signature (wire format §3). */
export function certificateText(certificate: DelegationCert): string {
  return canonicalJson({ ...certificate, constraints: certificate.constraints.map(canonicalConstraint) });
}

/**
 * Returns why a certificate must not be issued, or `undefined` if it may be issued. Checks in this order:
 * fields and limits (§1, §5), version, ids (§2), validity period, scopes (§6), constraints alone and together
 * (§7).
 */
export function checkIssuable(fields: DelegationFields): ProtocolError | undefined {
  return (
    fieldsError(fields) ?? ISSUING_RULES.map((rule) => rule(fields)).find((error) => error !== undefined)
  );
}

const ISSUING_RULES: readonly ((fields: DelegationFields) => ProtocolError | undefined)[] = [
  ({ version }) =>
    version === PROTOCOL_VERSION ? undefined : new ProtocolError("invalid_version", `${version}`, "version"),
  ({ issuer_id, issuer_pub_key }) => identityError("issuer_id", issuer_id, issuer_pub_key),
  ({ subject_id, subject_pub_key }) => identityError("subject_id", subject_id, subject_pub_key),
  ({ issued_at, expires_at }) =>
    issued_at >= 0 && expires_at > issued_at
      ? undefined
      : new ProtocolError("invalid_validity", "expires_at must be after issued_at"),
  ({ scope }) => scopeError(scope),
  ({ constraints }) => constraintsError(constraints),
];

function fieldsError(fields: DelegationFields): ProtocolError | undefined {
  try {
    unsigned(parseJson(canonicalBytes(fields), ISSUED_LIMITS));
    return undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return error;
    throw error;
  }
}

function identityError(name: string, id: string, key: HybridPublicKey): ProtocolError | undefined {
  return keyId(key) === id
    ? undefined
    : new ProtocolError("identifier_mismatch", "not the identifier of its key", name);
}

function scopeError(scope: readonly string[]): ProtocolError | undefined {
  if (scope.length === 0) {
    return new ProtocolError("invalid_scope", "a certificate without scopes grants nothing");
  }
  const invalid = invalidScopes(scope);
  return invalid.length === 0 ? undefined : new ProtocolError("invalid_scope", invalid.join(", "), "scope");
}

/** Returns why constraints of the right form can never be met, alone or together (wire format §7). */
export function constraintsError(constraints: readonly Constraint[]): ProtocolError | undefined {
  for (const [index, constraint] of constraints.entries()) {
    const violation = constraintViolation(constraint);
    if (violation !== undefined) {
      return new ProtocolError("invalid_constraint", violation, `constraints.${index}`);
    }
  }
  const conflict = issuingConflict(constraints);
  return conflict === undefined ? undefined : new ProtocolError("unsatisfiable_constraints", conflict);
}
