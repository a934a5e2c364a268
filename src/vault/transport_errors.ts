/** The vault did not sign, because it is unreachable, sealed or broken. A retry makes no change twice. */
export class VaultUnavailable extends Error {
  override readonly name = "VaultUnavailable";
  /** The vault's own error code, or `unreachable` if the vault did not respond. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The vault's codes for refused calls. */
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

/** The vault has refused the call, permanently unless its code is `rate_limited`. */
export class VaultRefused extends Error {
  override readonly name = "VaultRefused";
  readonly code: VaultRefusalCode;
  readonly status: number;
  /** Whole seconds after which the call may succeed. Set only for `rate_limited`. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: VaultRefusalCode, message: string, status: number, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
