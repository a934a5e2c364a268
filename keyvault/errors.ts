/**
 * All error codes that the vault returns, each with its HTTP status and its default message. Callers may rely
 * on codes and statuses, but not on messages.
 */
export const errorCodes = {
  invalid_request: [400, "The body, a header or the path is malformed, mistyped, missing or too large"],
  forbidden: [403, "The caller's role may not make this call"],
  wrong_pin: [403, "The token does not accept the PIN"],
  purpose_mismatch: [403, "The key has another purpose"],
  policy_violation: [403, "The statement breaks a rule of the key or of the vault"],
  not_found: [404, "There is no such call"],
  key_not_found: [404, "The tenant has no such key"],
  key_disabled: [409, "The key is disabled"],
  idempotency_conflict: [409, "The idempotency key was used with another body"],
  stale_offer: [409, "The PIN was encrypted for another start of the token's process; request a new offer"],
  rate_limited: [429, "Too many calls; see Retry-After"],
  key_damaged: [500, "A stored key or its attestation was altered; nothing was signed with it"],
  internal: [500, "An unexpected fault; nothing was signed"],
  sealed: [503, "The vault is sealed"],
  token_unavailable: [503, "The PKCS#11 token does not answer; nothing was signed"],
  audit_unavailable: [503, "The audit record could not be written; nothing was signed"],
  unavailable: [503, "The vault's database does not answer"],
} as const satisfies Record<string, readonly [number, string]>;

/** A stable error code of the vault. */
export type ErrorCode = keyof typeof errorCodes;

/** Codes of refusals: a rule of the vault decided against the call, and nothing failed. */
export type RefusalCode = Extract<
  ErrorCode,
  | "invalid_request"
  | "forbidden"
  | "wrong_pin"
  | "stale_offer"
  | "purpose_mismatch"
  | "policy_violation"
  | "key_not_found"
  | "key_disabled"
  | "idempotency_conflict"
  | "rate_limited"
>;

/** A refused call, not an exception, because the vault works correctly. `message` never contains a secret. */
export type Refusal = { refused: RefusalCode; message: string; retryAfterSeconds?: number };

/** Returns a refusal. `message` defaults to the code's default message. */
export function refuse(code: RefusalCode, message: string = errorCodes[code][1]): Refusal {
  return { refused: code, message };
}

/** Returns whether a value is a refusal. */
export function isRefusal(value: object): value is Refusal {
  return "refused" in value;
}

/** A malformed call, or a part of the vault that does not work. `message` never contains a secret. */
export class VaultError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string = errorCodes[code][1], options?: ErrorOptions) {
    super(message, options);
    this.name = "VaultError";
    this.code = code;
  }
}

/** Returns the error itself if it is a `VaultError`, otherwise an `internal` error with it as the cause. */
export function asVaultError(error: unknown): VaultError {
  return error instanceof VaultError ? error : new VaultError("internal", undefined, { cause: error });
}

/** Returns an error's message for the log. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}

/** The body of every error response. */
export type ErrorBody = { error: { code: ErrorCode; message: string; status: number } };

/** Returns an error body. It contains only code, message and status. */
export function errorBody(code: ErrorCode, message: string): ErrorBody {
  return { error: { code, message, status: errorCodes[code][0] } };
}

/** The exit statuses of all commands. `docs/exit_statuses.md` explains them. */
export const exitStatus = {
  done: 0,
  failed: 1,
  usage: 2,
  unavailable: 3,
  setting: 78,
  brokenPipe: 141,
} as const;

/**
 * A problem that the user can correct. The command line shows only its message, which never contains a
 * secret.
 */
export class UserError extends Error {
  override readonly name: string = "UserError";
  /** The exit status of the command. */
  readonly exitStatus: number = exitStatus.failed;
}

/** A command line that names something unusable. */
export class UsageError extends UserError {
  override readonly exitStatus = exitStatus.usage;
}

/** A part that the command needs does not answer, so nothing is known about the result. */
export class UnavailableError extends UserError {
  override readonly exitStatus = exitStatus.unavailable;
}
