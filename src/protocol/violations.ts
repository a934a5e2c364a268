/** Codes for bad evidence: malformed, forged, stale, replayed or mismatched (wire format §8). */
const EVIDENCE_CODES = [
  "no_delegations",
  "chain_too_deep",
  "no_challenge",
  "invalid_session_context",
  "missing_session_context",
  "session_context_mismatch",
  "session_context_unverifiable",
  "unknown_challenge",
  "invalid_stream_id",
  "invalid_stream_seq",
  "missing_stream_context",
  "stream_id_mismatch",
  "stream_seq_replay",
  "stream_seq_skip",
  "stream_context_unverifiable",
  "invalid_agent_key",
  "key_mismatch",
  "id_mismatch",
  "version_mismatch",
  "invalid_scope",
  "bad_signature",
  "broken_chain",
  "broken_chain_keys",
  "stale_challenge",
  "bad_challenge_sig",
  "session_token_invalid",
] as const;

/** Codes for good evidence that does not allow the request (wire format §8). */
export const PERMISSION_CODES = [
  "expired",
  "not_yet_valid",
  "revoked",
  "revocation_error",
  "delegation_not_authorized",
  "constraint_denied",
  "constraint_unverifiable",
  "constraint_unknown",
  "scope_denied",
] as const;

/** One of {@link PERMISSION_CODES}. */
export type PermissionCode = (typeof PERMISSION_CODES)[number];

/** Any code that verification can return. The set is closed. */
export type ViolationCode = (typeof EVIDENCE_CODES)[number] | PermissionCode;

/** One violated rule. */
export type Violation = {
  code: ViolationCode;
  detail: string;
  /** Position in the chain, 0 for the leaf. Absent if the violation concerns the whole bundle. */
  certificate?: number;
};

const STATUS_CODES = [
  "expired",
  "revoked",
  "scope_denied",
  "constraint_denied",
  "constraint_unverifiable",
  "constraint_unknown",
  "invalid_scope",
  "delegation_not_authorized",
] as const satisfies readonly ViolationCode[];

/** The result of a verification in one word (wire format §8). */
export type IdentityStatus = "authorized_agent" | "invalid" | (typeof STATUS_CODES)[number];

/** Returns the violation's code if it is also a status, otherwise `invalid` (wire format §8). */
export function statusOf(violation: Violation): IdentityStatus {
  return STATUS_CODES.find((code) => code === violation.code) ?? "invalid";
}

const WITHOUT_CODE: readonly ViolationCode[] = ["expired", "revoked"];

/** Returns the `error_reason`: `<code>: <detail>`, or only the detail for `expired` and `revoked`. */
export function reasonOf({ code, detail }: Violation): string {
  return WITHOUT_CODE.includes(code) ? detail : `${code}: ${detail}`;
}
