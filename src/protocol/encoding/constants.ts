/** Version that every versioned object carries (wire format §1). */
export const PROTOCOL_VERSION = 1;

/** Certificates a proof bundle may chain, leaf to root (wire format §1). */
export const MAX_DELEGATION_CHAIN_DEPTH = 8;

/** Seconds a signed challenge stays fresh, both ends included (wire format §1, §8 step 7). */
export const CHALLENGE_WINDOW_SECONDS = 300;

/** `expires_at` that means "until revoked" (wire format §1). */
export const NO_EXPIRY_SENTINEL = 4_070_908_799;

/** Bytes a received document may have, checked before it is parsed (wire format §1, §5). */
export const MAX_PROOF_BUNDLE_BYTES = 131_072;

/** How many objects and arrays may be nested, checked while parsing (wire format §1, §5). */
export const MAX_JSON_NESTING_DEPTH = 16;

/** Scopes one certificate may list (wire format §1). */
export const MAX_SCOPES_PER_CERT = 128;

/** Constraints one certificate may list (wire format §1). */
export const MAX_CONSTRAINTS_PER_CERT = 32;

/** UTF-8 bytes of one scope (wire format §1). */
export const MAX_SCOPE_LENGTH_BYTES = 256;

/**
 * UTF-8 bytes of one identifier: certificate, issuer, subject, agent, human, session, verifier, party, role,
 * transaction (wire format §1).
 */
export const MAX_IDENTIFIER_LENGTH_BYTES = 512;

/** Bytes of a challenge, a session context, a stream id and a SHA-256 hash (wire format §4). */
export const BINDING_BYTES = 32;
