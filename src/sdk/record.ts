import { type Finding, NO_AUTHORITY, NO_DECISION, type Refusal, type Ruling } from "./enforcement.ts";
import type { Operation } from "./operation.ts";
import { frozenCopy } from "./payload.ts";

/**
 * Why the action runs or not: what verify answered, or what kept the guard from asking (`no_scope`,
 * `no_proof`, `malformed_proof`, `unbindable_payload`, `incomplete_operation`, `no_api_key`) or from acting
 * on an allow (`replayed`, `principal_not_accepted`, `principals_not_read`, `record_not_retained`).
 */
export type Cause =
  | Finding
  | "no_scope"
  | "no_proof"
  | "malformed_proof"
  | "unbindable_payload"
  | "incomplete_operation"
  | "no_api_key"
  | "replayed"
  | "principal_not_accepted"
  | "principals_not_read"
  | "record_not_retained";

/**
 * The part of a verification to retain: frozen, fit for JSON, free of the proof, the payload and the API key.
 */
export type VerificationRecord = {
  readonly cause: Cause;
  readonly requiredScope: string | undefined;
  readonly operation: Operation | undefined;
  /** When verify was called, or would have been. ISO 8601, UTC. */
  readonly askedAt: string;
  /** HTTP status of verify; `undefined` without a whole answer. */
  readonly status: number | undefined;
  /** The answer of verify, the receipt and its hash included; empty without one. */
  readonly answer: Readonly<Record<string, unknown>>;
  /** How the application refuses; `undefined` when it may act. */
  readonly refusal: Refusal | undefined;
};

/** What was asked, and when. */
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
  record_not_retained: NO_DECISION,
};

/** The record of a verification, or of none when there is no ruling. */
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

/**
 * The record of a verification after which the action does not run: for the ruling's reason, or else for the
 * guard's own.
 */
export function refusalRecord(
  asked: Asked,
  cause: Cause,
  ruling?: Ruling,
): VerificationRecord & { readonly refusal: Refusal } {
  const refusal = OWN_REFUSALS[cause] ?? ruling?.refusal ?? NO_AUTHORITY;
  return Object.freeze({ ...verificationRecord(asked, cause, ruling, refusal), refusal });
}
