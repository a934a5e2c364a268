import { type Clock, inTime } from "../../clock.ts";
import { isAway } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { VaultRefused, VaultUnavailable } from "../../vault/transport.ts";
import type { Middleware } from "../http_call.ts";
import { createFaultLog } from "./fault_log.ts";
import { errorReply, type Reply } from "./replies.ts";

const LATE = "No answer in time; whether the call had an effect is not known";

/**
 * `work`'s answer to one call of `route`, or its refusal. A call that hangs, because a part it needs does,
 * becomes `unavailable` at the deadline. Faults of ours are logged with the request's id, refusals and
 * successes are not; refusals are counted by code. Rejects with nothing but an `ApiError`.
 */
export type Conclude = (
  call: { requestId: string; route: string },
  work: () => Promise<Reply>,
) => Promise<Reply>;

type ConcludeDeps = {
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  /** Milliseconds after which a call that has no answer gets one. */
  deadlineMs: number;
};

/** How calls come to their answer, whoever makes them. */
export function createConclude({ log, clock, metrics, deadlineMs }: ConcludeDeps): Conclude {
  const logFault = createFaultLog({ log, clock });
  return (call, work) =>
    inTime(deadlineMs, work(), () => new LateAnswer(`no answer in ${deadlineMs} ms`)).catch(
      (error: unknown) => {
        const refusal = error instanceof LateAnswer ? new ApiError("unavailable", LATE) : toApiError(error);
        if (refusal !== error) logFault(call, refusal, error);
        metrics.httpErrors.inc({ code: refusal.code });
        throw refusal;
      },
    );
}

/** Makes a refusal the reply. */
export const refusals: Middleware = (_, next) => next().catch(errorReply);

/** Ends calls at the deadline, and turns everything thrown into an `ApiError`. */
export function bounded(conclude: Conclude): Middleware {
  return ({ state: call }, next) => conclude(call, next);
}

/** Refuses a request whose id cannot be given back. */
export const requestId: Middleware = async ({ state: { id } }, next) => {
  if (id.fault !== undefined) throw new ApiError("invalid_request", `x-request-id: ${id.fault}`);
  return next();
};

/** Tells how long a call of a route took, in milliseconds, and its status. */
export type Observe = (route: string, status: number, milliseconds: number) => void;

/** Observes without looking the labels up each time: there are few pairs of them. */
export function createObserve({ httpRequests }: Metrics): Observe {
  const known = new Map<string, Map<number, { observe(seconds: number): void }>>();
  return (route, status, milliseconds) => {
    const byStatus = known.get(route) ?? new Map<number, { observe(seconds: number): void }>();
    const bound = byStatus.get(status) ?? httpRequests.labels(route, String(status));
    known.set(route, byStatus.set(status, bound));
    bound.observe(milliseconds / 1000);
  };
}

class LateAnswer extends Error {
  override readonly name = "LateAnswer";
}

/**
 * What a caller's answer says of anything thrown: an `ApiError` as it is, a vault that is away or will not
 * sign as `vault_unavailable` (with the time to try again when it was asked too often), another part that is
 * away as `unavailable`, all else as `internal`, without a word of what happened.
 */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof VaultRefused) {
    return new ApiError("vault_unavailable", undefined, retryHeaders(error.retryAfterSeconds));
  }
  if (error instanceof VaultUnavailable) return new ApiError("vault_unavailable");
  return new ApiError(isAway(error) ? "unavailable" : "internal");
}

function retryHeaders(seconds: number | undefined): Record<string, string> {
  return seconds === undefined ? {} : { "retry-after": String(seconds) };
}
