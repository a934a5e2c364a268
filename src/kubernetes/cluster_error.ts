import { z } from "zod";

/** The actions on a resource, as Kubernetes RBAC names them. */
export type Verb = "get" | "list" | "watch" | "create" | "patch" | "delete";

/** The known facts about a failed call. `status` is absent if the cluster did not answer. */
export type FailedCall = {
  verb: Verb;
  resource: string;
  status?: number | undefined;
  reason: string;
  retryAfterMs?: number | undefined;
  /** Name of the quota that the call would exceed. */
  quota?: string | undefined;
};

/**
 * A failed call to the cluster. It states the call and the reason, but quotes neither bodies nor headers,
 * because both may contain secrets.
 */
export class ClusterError extends Error {
  readonly verb: Verb;
  readonly resource: string;
  readonly status: number | undefined;
  readonly reason: string;
  /** The wait that the cluster requests, in milliseconds. */
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

/** A call that the cluster will refuse again until somebody changes a role, a quota or the object. */
export class ClusterRefused extends ClusterError {
  readonly quota: string | undefined;

  constructor(call: FailedCall) {
    super(call);
    this.quota = call.quota;
    this.name = "ClusterRefused";
  }
}

/** HTTP statuses of calls that would fail again. An exceeded quota returns 403, an immutable field 422. */
const REFUSALS = new Set([400, 403, 405, 406, 413, 415, 422]);
const REASON = /^[A-Za-z]{1,64}$/;
/** The only part of a message that the error keeps. The rest may quote the request. */
const QUOTA = /exceeded quota: ([a-z0-9][-.a-z0-9]{0,252})/;
const MAX_RETRY_AFTER_SECONDS = 3600;

const statusObject = z.object({
  code: z.number().optional(),
  reason: z.string().regex(REASON).optional(),
  message: z.string().optional(),
  details: z.object({ retryAfterSeconds: z.number().optional() }).optional(),
});

/** Converts an answer with an HTTP status, or a `Status` object in a watch, to an error. */
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

/** Returns the error for a call that got no complete answer. Its reason is the underlying error's code. */
export function errorOfTransport(call: Pick<FailedCall, "verb" | "resource">, error: unknown): ClusterError {
  if (error instanceof ClusterError) return error;
  // Uses the cause of a `TypeError`, in which `fetch` wraps the actual error.
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

/** Returns whether an error reports an answer with this HTTP status. */
export function isStatus(error: unknown, status: number): boolean {
  return error instanceof ClusterError && error.status === status;
}
