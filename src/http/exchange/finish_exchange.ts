import type { IncomingMessage, ServerResponse } from "node:http";
import { describeFault } from "../../describe_fault.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { type RequestId, requestIdOf } from "../request/request_id.ts";
import type { Conclude, Observe } from "./conclude.ts";
import type { Drains } from "./drains.ts";
import { errorReply, type Reply, sendEarly, sendReply } from "./replies.ts";

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
  conclude: Conclude;
  observe: Observe;
  log: Logger;
  commonHeaders: Record<string, string>;
  drains: Drains;
  /** The network that a request comes from, as far as it is known. */
  clientOf(request: IncomingMessage): string;
};

/**
 * The one place where an exchange ends: `work`'s answer or its error becomes the response, with the headers
 * that every answer has; time and status are counted under `route`. Never rejects.
 */
export function createFinishExchange({
  conclude,
  observe,
  log,
  commonHeaders,
  drains,
  clientOf,
}: FinishDeps): FinishExchange {
  return async (exchange, route, work) => {
    const { request, response, id, startedAt } = exchange;
    const reply = await conclude({ requestId: id.logged, route }, () => begin(exchange, work)).catch(
      errorReply,
    );
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
    observe(route, reply.status, performance.now() - startedAt);
  };
}

/** `work`, unless the request's id is one that cannot be given back: then a refusal. */
async function begin(exchange: Exchange, work: (exchange: Exchange) => Promise<Reply>): Promise<Reply> {
  const { fault } = exchange.id;
  if (fault !== undefined) throw new ApiError("invalid_request", `x-request-id: ${fault}`);
  return work(exchange);
}
