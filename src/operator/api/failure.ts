import type { ErrorCode } from "../../errors.ts";

/**
 * Why a call of the API gave no answer: it `refused` what was asked (a code of the service), it or what it
 * needs is `unavailable`, it does not know this operator (`unauthorized`), or a newer operator leads
 * (`superseded`). Messages are for people and hold no secret.
 */
export type ApiFailure =
  | { kind: "refused"; code: ErrorCode; message: string }
  | { kind: "unavailable"; message: string; retryAfterMs?: number }
  | { kind: "unauthorized"; message: string }
  | { kind: "superseded"; message: string };

/** The value of a call, or why there is none. */
export type ApiResult<T> = { value: T; failure?: never } | { value?: never; failure: ApiFailure };
