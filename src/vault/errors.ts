/**
 * The key vault did not sign: it is away, sealed, or a part of it does not work. Nothing was changed that a
 * retry would double.
 */
export class VaultUnavailable extends Error {
  override readonly name = "VaultUnavailable";
  /** The vault's own code, or `unreachable` when there was no answer. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Codes of the key vault's refusals. */
export type VaultRefusalCode =
  | "invalid_request"
  | "forbidden"
  | "purpose_mismatch"
  | "policy_violation"
  | "not_found"
  | "key_not_found"
  | "key_disabled"
  | "idempotency_conflict"
  | "rate_limited";

/** The key vault is well and has decided against the call: permanently, unless it is `rate_limited`. */
export class VaultRefused extends Error {
  override readonly name = "VaultRefused";
  readonly code: VaultRefusalCode;
  readonly status: number;
  /** Whole seconds after which the call may succeed, of one that is `rate_limited`. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: VaultRefusalCode, message: string, status: number, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
