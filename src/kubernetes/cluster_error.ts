import { z } from "zod";

/** What is done with a resource, in the words of Kubernetes' roles. */
export type Verb = "get" | "list" | "watch" | "create" | "patch" | "delete";

/** What is known of a call that failed. `status` is missing when there was no answer. */
export type FailedCall = {
  verb: Verb;
  resource: string;
  status?: number | undefined;
  reason: string;
  retryAfterMs?: number | undefined;
  /** The quota that the call would go beyond. */
  quota?: string | undefined;
};

/**
 * A call of the cluster that failed. It says which call and why, and quotes neither bodies nor headers: both
 * may hold secrets.
 */
export class ClusterError extends Error {
  readonly verb: Verb;
  readonly resource: string;
  readonly status: number | undefined;
  readonly reason: string;
  /** How long the cluster asks to wait. */
  readonly retryAfterMs: number | undefined;

  constructor({ verb, resource, status, reason, retryAfterMs }: FailedCall) {
    super(`${verb} ${resource}: ${status === undefined ? "" : `${status} `}${reason}`);
    this.name = "ClusterError";
    this.verb = verb;
    this.resource = resource;
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The cluster refuses a call, and will until a person changes something: roles, a quota, the object. */
export class ClusterRefused extends ClusterError {
  readonly quota: string | undefined;

  constructor(call: FailedCall) {
    super(call);
    this.quota = call.quota;
    this.name = "ClusterRefused";
  }
}

/** Answers after which the same call fails again. A quota is 403, an immutable field 422. */
const REFUSALS = new Set([400, 403, 405, 406, 413, 415, 422]);
const REASON = /^[A-Za-z]{1,64}$/;
/** All of a message that is kept: it may quote what was sent. */
const QUOTA = /exceeded quota: ([a-z0-9][-.a-z0-9]{0,252})/;
/** Longest wait that a Retry-After header is believed. */
const MAX_RETRY_AFTER_SECONDS = 3600;

const statusObject = z.object({
  code: z.number().optional(),
  reason: z.string().regex(REASON).optional(),
  message: z.string().optional(),
  details: z.object({ retryAfterSeconds: z.number().optional() }).optional(),
});

/** The error that an answer of the cluster means: its HTTP status, or a `Status` object in a watch. */
export function errorOfAnswer(
  { verb, resource }: Pick<FailedCall, "verb" | "resource">,
  { status, body, retryAfter }: { status?: number; body: unknown; retryAfter?: string | undefined },
): ClusterError {
  const parsed = statusObject.safeParse(body);
  const { code, reason = "Unknown", details, message = "" } = parsed.success ? parsed.data : {};
  const found = status ?? code;
  const seconds = Number(retryAfter ?? details?.retryAfterSeconds ?? Number.NaN);
  const isWait = Number.isInteger(seconds) && seconds >= 0;
  const call = {
    verb,
    resource,
    status: found,
    reason,
    quota: QUOTA.exec(message)?.[1],
    retryAfterMs: isWait ? Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1000 : undefined,
  };
  return found !== undefined && REFUSALS.has(found) ? new ClusterRefused(call) : new ClusterError(call);
}

/** The error of a call that got no whole answer, by the code of what went wrong on the way. */
export function errorOfTransport(call: Pick<FailedCall, "verb" | "resource">, error: unknown): ClusterError {
  if (error instanceof ClusterError) return error;
  // `fetch` wraps what went wrong.
  const { name, code } = (error instanceof TypeError ? (error.cause ?? error) : error) as {
    name?: unknown;
    code?: unknown;
  };
  if (name === "TimeoutError") return new ClusterError({ ...call, reason: "Timeout" });
  if (name === "AbortError") return new ClusterError({ ...call, reason: "Aborted" });
  if (error instanceof SyntaxError) return new ClusterError({ ...call, reason: "BadAnswer" });
  const isCode = typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code);
  return new ClusterError({ ...call, reason: isCode ? code : "ConnectionFailed" });
}

/** Whether an error is an answer with this HTTP status. */
export function isStatus(error: unknown, status: number): boolean {
  return error instanceof ClusterError && error.status === status;
}
