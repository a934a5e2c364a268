import { type Clock, inTime } from "../clock.ts";
import { isAway } from "../db/errors.ts";
import { describeFault, type Fault } from "../describe_fault.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { createPacedLines } from "../rates/paced_lines.ts";
import { VaultRefused, VaultUnavailable } from "../vault/transport.ts";
import type { Middleware } from "./http_call.ts";
import { errorReply, type Reply } from "./replies.ts";

const LATE = "No answer in time; whether the call had an effect is not known";

/**
 * Resolves to `work`'s reply, or rejects with an `ApiError`. A call that hangs, because a part it needs does,
 * becomes `unavailable` at the deadline. Faults of ours are logged with the request's id, refusals and
 * successes are not. Refusals are counted by code.
 */
export type Settle = (
  call: { requestId: string; route: string },
  work: () => Promise<Reply>,
) => Promise<Reply>;

type SettleDeps = {
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  /** Milliseconds after which a call that has no answer gets one. */
  deadlineMs: number;
};

/** Settles the calls of HTTP clients and of pages alike. */
export function createSettle({ log, clock, metrics, deadlineMs }: SettleDeps): Settle {
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
export function deadline(settle: Settle): Middleware {
  return ({ state: call }, next) => settle(call, next);
}

/** Refuses a request whose id cannot be given back. */
export const requestId: Middleware = async ({ state: { id } }, next) => {
  if (id.fault !== undefined) throw new ApiError("invalid_request", `x-request-id: ${id.fault}`);
  return next();
};

/** Records the status of a call of a route, and how long it took. */
export type Observe = (route: string, status: number, milliseconds: number) => void;

/** Remembers the pairs of route and status, of which there are few, so that labels are looked up once. */
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
 * The refusal for anything thrown. An `ApiError` stays as it is. A vault that is away or does not sign
 * becomes `vault_unavailable`, with the time to try again when it was asked too often. Another part that is
 * away becomes `unavailable`. Everything else becomes `internal`, without a word of what happened.
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

/** Logs why a call failed. */
type LogFault = (call: { requestId: string; route: string }, refusal: ApiError, error: unknown) => void;

type FaultLogDeps = { log: Logger; clock: Clock };

/**
 * Logs every fault of ours. A part that is away may refuse any number of calls, so at most 60 a minute of a
 * route and kind are logged. The next line says how many were left out.
 */
function createFaultLog({ log, clock }: FaultLogDeps): LogFault {
  const paced = createPacedLines("warn", { log, clock });
  return ({ requestId, route }, refusal, error) => {
    const fault = describeFault(error);
    const line = { request_id: requestId, route, fault };
    if (refusal.code === "internal") {
      log.error(line, refusal.message);
    } else {
      paced(`${route} ${kindOf(fault)}`, line, refusal.message);
    }
  };
}

/**
 * Logs responses that broke off, at most 60 a minute of a kind: a client only needs to hang up to cause one.
 */
export function createBreakLog(deps: FaultLogDeps): (error: unknown) => void {
  const paced = createPacedLines("warn", deps);
  return (error) => {
    const fault = describeFault(error);
    paced(kindOf(fault), { fault }, "a response broke off");
  };
}

function kindOf({ code, type }: Fault): string {
  return code ?? type;
}
