import { type Clock, inTime } from "../clock.ts";
import { isAway } from "../db/errors.ts";
import { describeFault, type Fault } from "../describe_fault.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { createPacedLines } from "../rates/paced_lines.ts";
import { VaultCertificateExpired } from "../vault/certificate_fault.ts";
import { VaultRefused, VaultUnavailable } from "../vault/transport.ts";
import type { Middleware } from "./http_call.ts";
import { errorReply, type Reply } from "./replies.ts";

const LATE = "No answer in time; it is not known whether the call had an effect";

/**
 * Resolves to the reply of `work`, or rejects with an `ApiError`, which is `unavailable` after the deadline.
 * Logs internal errors with the request's id, and counts refusals by code.
 */
export type RunCall = (
  call: { requestId: string; route: string },
  work: () => Promise<Reply>,
) => Promise<Reply>;

type RunCallDeps = {
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  deadlineMs: number;
};

/** Creates the `RunCall` that HTTP calls and pages share. */
export function createRunCall({ log, clock, metrics, deadlineMs }: RunCallDeps): RunCall {
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

/** Converts a thrown `ApiError` to an error reply. */
export const refusals: Middleware = (_, next) => next().catch(errorReply);

/** Ends calls at the deadline, and converts everything thrown to an `ApiError`. */
export function deadline(runCall: RunCall): Middleware {
  return ({ state: call }, next) => runCall(call, next);
}

/** Refuses a request whose id cannot be returned unchanged. */
export const requestId: Middleware = async ({ state: { id } }, next) => {
  if (id.fault !== undefined) throw new ApiError("invalid_request", `x-request-id: ${id.fault}`);
  return next();
};

/** Records the status and the duration of a call. */
export type Observe = (route: string, status: number, milliseconds: number) => void;

/** Creates an `Observe`, which caches the metric labels of each pair of route and status. */
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

const EXPIRED =
  "The key vault did not sign, because a certificate between it and the service has expired; nothing was changed";

/**
 * Converts anything thrown to an `ApiError`, without any detail of an internal error. An unavailable vault,
 * or its refusal to sign, becomes `vault_unavailable`. Another unavailable component becomes `unavailable`.
 */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof VaultRefused) {
    return new ApiError("vault_unavailable", undefined, retryHeaders(error.retryAfterSeconds));
  }
  if (error instanceof VaultCertificateExpired) return new ApiError("vault_unavailable", EXPIRED);
  if (error instanceof VaultUnavailable) return new ApiError("vault_unavailable");
  return new ApiError(isAway(error) ? "unavailable" : "internal");
}

function retryHeaders(seconds: number | undefined): Record<string, string> {
  return seconds === undefined ? {} : { "retry-after": String(seconds) };
}

type LogFault = (call: { requestId: string; route: string }, refusal: ApiError, error: unknown) => void;

type FaultLogDeps = { log: Logger; clock: Clock };

/**
 * Creates a function that logs internal errors, at most 60 lines a minute for each route and kind of error.
 * The next line reports how many were omitted.
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
 * Creates a function that logs responses that ended early. Any client can end one by disconnecting, so it
 * logs at most 60 a minute for each kind of error.
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
