import { type Finding, NO_AUTHORITY, NO_DECISION, type Refusal, type Ruling } from "./enforcement.ts";
import type { Operation } from "./operation.ts";
import { frozenCopy } from "./payload.ts";

/**
 * Why the action runs or does not run. A cause is one of:
 * - the result of verify
 * - why the guard did not call verify: `no_scope`, `no_proof`, `malformed_proof`, `unbindable_payload`,
 *  `incomplete_operation`, `invalid_amount`, `hidden_dot_segment`, `no_api_key`, `verifier_not_read`
 * - why the guard did not act on `allow`: `replayed`, `principal_not_accepted`, `principals_not_read`,
 *  `record_not_retained`
 */
export type Cause =
  | Finding
  | "no_scope"
  | "no_proof"
  | "malformed_proof"
  | "unbindable_payload"
  | "incomplete_operation"
  | "invalid_amount"
  | "hidden_dot_segment"
  | "no_api_key"
  | "verifier_not_read"
  | "replayed"
  | "principal_not_accepted"
  | "principals_not_read"
  | "record_not_retained";

/**
 * The record of a verification, for the application to keep. It is frozen and can be serialized as JSON. It
 * does not contain the proof, the payload or the API key.
 */
export type VerificationRecord = {
  readonly cause: Cause;
  readonly requiredScope: string | undefined;
  readonly operation: Operation | undefined;
  /** Time at which verify was called or would have been called. ISO 8601, UTC. */
  readonly askedAt: string;
  /** HTTP status of verify's response, or `undefined` if no complete response arrived. */
  readonly status: number | undefined;
  /** Verify's response, including the receipt and its hash. Empty if there was no response. */
  readonly answer: Readonly<Record<string, unknown>>;
  /** The application's refusal, or `undefined` if the application may act. */
  readonly refusal: Refusal | undefined;
};

/** The subject and the time of a verification. */
export type Asked = {
  requiredScope: string | undefined;
  operation?: Operation | undefined;
  askedAt: string;
};

const REPLAYED: Refusal = Object.freeze({
  status: 403,
  code: "invocation_replayed",
  message: "This invocation was decided before; nothing was done again",
});

const NOT_ACCEPTED: Refusal = Object.freeze({
  status: 403,
  code: "principal_not_accepted",
  message: "Authority of this principal is not accepted here",
});

const OWN_REFUSALS: Partial<Record<Cause, Refusal>> = {
  replayed: REPLAYED,
  principal_not_accepted: NOT_ACCEPTED,
  principals_not_read: NO_DECISION,
  no_api_key: NO_DECISION,
  verifier_not_read: NO_DECISION,
  record_not_retained: NO_DECISION,
};

/** Creates the record of a verification. Without `ruling`, verify was not called. */
export function verificationRecord(
  { requiredScope, operation, askedAt }: Asked,
  cause: Cause,
  ruling?: Ruling,
  refusal?: Refusal,
): VerificationRecord {
  const answer = frozenCopy(ruling?.answer ?? {}) as VerificationRecord["answer"];
  const status = ruling?.status;
  return Object.freeze({ cause, requiredScope, operation, askedAt, status, answer, refusal });
}

/** Creates the record of a refused action. The refusal depends on the cause, or comes from the ruling. */
export function refusalRecord(
  asked: Asked,
  cause: Cause,
  ruling?: Ruling,
): VerificationRecord & { readonly refusal: Refusal } {
  const refusal = OWN_REFUSALS[cause] ?? ruling?.refusal ?? NO_AUTHORITY;
  return Object.freeze({ ...verificationRecord(asked, cause, ruling, refusal), refusal });
}
