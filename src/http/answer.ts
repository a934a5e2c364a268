import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import { describeFault } from "../describe_fault.ts";
import type { Logger } from "../log.ts";
import type { Cookies } from "./cookies.ts";
import type { Observe } from "./deadline.ts";
import type { HttpCall } from "./http_call.ts";
import { bodyBeside, type Reply, sendEarly, sendReply } from "./replies.ts";
import type { UnreadBodies } from "./server/unread_body.ts";

type AnsweringDeps = {
  observe: Observe;
  log: Logger;
  commonHeaders: Record<string, string>;
  unreadBodies: UnreadBodies;
  /** Returns the network that a request comes from, or an empty string if the network is unknown. */
  clientOf(request: IncomingMessage): string;
  cookies: Pick<Cookies, "removeForeign">;
};

/** Sends replies as responses with the common headers, and counts the responses by route and status. */
export type Answering = {
  /** Koa's first middleware. Sends the reply that the next middleware returns, if it returns one. */
  answer: Koa.Middleware<HttpCall>;
  /** Sends the reply to a call that does not go through Koa. */
  send(call: HttpCall, reply: Reply): void;
};

/** Creates the functions that send replies. If a reply cannot be sent, they close the connection. */
export function createAnswering({
  observe,
  log,
  commonHeaders,
  unreadBodies,
  clientOf,
  cookies,
}: AnsweringDeps): Answering {
  const headersOf = ({ id }: HttpCall) => ({ ...commonHeaders, "x-request-id": id.answered });

  function withRemovals({ request }: HttpCall, reply: Reply): Reply {
    const removals = cookies.removeForeign(request);
    return removals.length === 0 ? reply : { ...reply, cookies: [...(reply.cookies ?? []), ...removals] };
  }

  function send(call: HttpCall, answered: Reply): void {
    const { request, response } = call;
    const reply = withRemovals(call, answered);
    end(call, reply, () => {
      if (request.complete) {
        sendReply(response, reply, headersOf(call));
      } else {
        sendEarly(response, reply, headersOf(call), unreadBodies.discard(request, clientOf(request)));
      }
    });
  }

  function end(call: HttpCall, reply: Reply, write: () => void): void {
    const { response, id, route, startedAt } = call;
    try {
      write();
    } catch (error) {
      log.error({ request_id: id.logged, route, fault: describeFault(error) }, "an answer could not be sent");
      response.destroy();
    }
    observe(route, reply.status, performance.now() - startedAt);
  }

  return {
    send,
    async answer(ctx, next) {
      const call = ctx.state;
      ctx.set(headersOf(call));
      const reply: Reply | undefined = await next();
      if (reply === undefined) {
        if (typeof ctx.body === "string") ctx.body = bodyBeside(call.id.answered, ctx.body);
      } else if (call.request.complete && reply.rest === undefined) {
        end(call, reply, () => writeReply(ctx, withRemovals(call, reply)));
      } else {
        // Sends the reply without Koa. Koa would end the response immediately, and close a connection
        // whose request is still arriving. Koa would also log each client that disconnects during a file.
        ctx.respond = false;
        send(call, reply);
      }
    },
  };
}

/** Writes a reply to Koa's context. Koa sends it. */
function writeReply(
  ctx: Koa.ParameterizedContext<HttpCall>,
  { status, headers, cookies, body }: Reply,
): void {
  ctx.set(headers);
  if (cookies !== undefined) ctx.set("set-cookie", cookies);
  ctx.body = bodyBeside(ctx.state.id.answered, body);
  // Set the status after the body: Koa chooses a status, and a content type if none is set, with the body.
  ctx.status = status;
  if (headers["content-type"] === undefined) ctx.remove("content-type");
}
