/** The protocol version that every versioned object contains (wire format §1). */
export const PROTOCOL_VERSION = 1;

/** Maximum number of certificates in a proof bundle's chain (wire format §1). */
export const MAX_DELEGATION_CHAIN_DEPTH = 8;

/** Seconds for which a signed challenge is fresh, first and last included (wire format §1, §8 step 7). */
export const CHALLENGE_WINDOW_SECONDS = 300;

/** The value of `expires_at` that means "until revoked" (wire format §1). */
export const NO_EXPIRY_SENTINEL = 4_070_908_799;

/** Maximum size of a received document in bytes, checked before parsing (wire format §1, §5). */
export const MAX_PROOF_BUNDLE_BYTES = 131_072;

/** Maximum nesting of objects and arrays, checked while parsing (wire format §1, §5). */
export const MAX_JSON_NESTING_DEPTH = 16;

/** Maximum number of scopes in one certificate (wire format §1). */
export const MAX_SCOPES_PER_CERT = 128;

/** Maximum number of constraints in one certificate (wire format §1). */
export const MAX_CONSTRAINTS_PER_CERT = 32;

/** Maximum length of one scope, in UTF-8 bytes (wire format §1). */
export const MAX_SCOPE_LENGTH_BYTES = 256;

/** Maximum length of an id of any kind, in UTF-8 bytes (wire format §1). */
export const MAX_IDENTIFIER_LENGTH_BYTES = 512;

/** Length in bytes of a challenge, a session context, a stream id and a SHA-256 hash (wire format §4). */
export const BINDING_BYTES = 32;
