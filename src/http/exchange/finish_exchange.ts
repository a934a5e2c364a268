import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../clock.ts";
import { isAway } from "../../db/errors.ts";
import { describeFault } from "../../describe_fault.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { VaultRefused, VaultUnavailable } from "../../vault/errors.ts";
import { type RequestId, requestIdOf } from "../request/request_id.ts";
import type { Drains } from "./drains.ts";
import { createFaultLog } from "./fault_log.ts";
import { errorReply, type Reply, sendEarly, sendReply } from "./replies.ts";

const LATE = "No answer in time; whether the call had an effect is not known";

/** One request and its response, with the id that the caller and the log know it by. */
export type Exchange = {
  request: IncomingMessage;
  response: ServerResponse;
  id: RequestId;
  /** `performance.now()` at the request's arrival. */
  startedAt: number;
};

/** Brings every exchange to its end, whatever happens in between. */
export type FinishExchange = (
  exchange: Exchange,
  route: string,
  work: (exchange: Exchange) => Promise<Reply>,
) => Promise<void>;

/** An exchange that has just arrived. */
export function openExchange(request: IncomingMessage, response: ServerResponse): Exchange {
  return {
    request,
    response,
    id: requestIdOf(request.headers["x-request-id"]),
    startedAt: performance.now(),
  };
}

type FinishDeps = {
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  commonHeaders: Record<string, string>;
  drains: Drains;
  /** The network that a request comes from, as far as it is known. */
  clientOf(request: IncomingMessage): string;
  /** Milliseconds after which a call that has no answer gets one. */
  deadlineMs: number;
};

/**
 * The one place where an exchange ends: `work`'s answer or its error becomes the response, with the headers
 * that every answer has; time and status are counted under `route`, errors by code. A call that hangs,
 * because a part it needs does, becomes `unavailable` at the deadline. Faults of ours are logged with the
 * request's id, refusals and successes are not. Never rejects.
 */
export function createFinishExchange({
  log,
  clock,
  metrics,
  commonHeaders,
  drains,
  clientOf,
  deadlineMs,
}: FinishDeps): FinishExchange {
  const histogram = createObserver(metrics);
  const logFault = createFaultLog({ log, clock });
  return async (exchange, route, work) => {
    const { request, response, id, startedAt } = exchange;
    const reply = await withDeadline(begin(exchange, work), deadlineMs).catch((error: unknown) => {
      const refusal = error instanceof LateAnswer ? new ApiError("unavailable", LATE) : toApiError(error);
      if (refusal !== error) logFault({ requestId: id.logged, route }, refusal, error);
      metrics.httpErrors.inc({ code: refusal.code });
      return errorReply(refusal);
    });
    try {
      const common = { ...commonHeaders, "x-request-id": id.answered };
      if (request.complete) {
        sendReply(response, reply, common);
      } else {
        sendEarly(response, reply, common, drains.begin(request, clientOf(request)));
      }
    } catch (error) {
      log.error({ request_id: id.logged, route, fault: describeFault(error) }, "an answer could not be sent");
      response.destroy();
    }
    histogram(route, reply.status, (performance.now() - startedAt) / 1000);
  };
}

/** `work`, unless the request's id is one that cannot be given back: then a refusal. */
async function begin(exchange: Exchange, work: (exchange: Exchange) => Promise<Reply>): Promise<Reply> {
  const { fault } = exchange.id;
  if (fault !== undefined) throw new ApiError("invalid_request", `x-request-id: ${fault}`);
  return work(exchange);
}

class LateAnswer extends Error {
  override readonly name = "LateAnswer";
}

/**
 * `work`, or a rejection when it takes longer. The work itself goes on: what it still does is not known to
 * the caller.
 */
function withDeadline<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new LateAnswer(`no answer in ${deadlineMs} ms`)), deadlineMs);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Observes without looking the labels up each time: there are few pairs of them. */
function createObserver({ httpRequests }: Metrics) {
  const known = new Map<string, Map<number, { observe(seconds: number): void }>>();
  return (route: string, status: number, seconds: number): void => {
    const byStatus = known.get(route) ?? new Map<number, { observe(seconds: number): void }>();
    const bound = byStatus.get(status) ?? httpRequests.labels(route, String(status));
    known.set(route, byStatus.set(status, bound));
    bound.observe(seconds);
  };
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
