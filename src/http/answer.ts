import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import { describeFault } from "../describe_fault.ts";
import type { Logger } from "../log.ts";
import type { Observe } from "./deadline.ts";
import type { HttpCall } from "./http_call.ts";
import { bodyBeside, type Reply, sendEarly, sendReply } from "./replies.ts";
import type { UnreadBodies } from "./server/unread_body.ts";

type AnsweringDeps = {
  observe: Observe;
  log: Logger;
  commonHeaders: Record<string, string>;
  unreadBodies: UnreadBodies;
  /** The network that a request comes from, as far as it is known. */
  clientOf(request: IncomingMessage): string;
};

/** Turns replies into responses, with the headers of every response, and counts them by route and status. */
export type Answering = {
  /**
   * The first middleware of Koa: sends the reply that the others give. Pages write to Koa's context
   * themselves.
   */
  answer: Koa.Middleware<HttpCall>;
  /** Sends the reply to a call that does not go through Koa. */
  send(call: HttpCall, reply: Reply): void;
};

/** A reply that cannot be sent is logged, and its connection ends. */
export function createAnswering({
  observe,
  log,
  commonHeaders,
  unreadBodies,
  clientOf,
}: AnsweringDeps): Answering {
  const headersOf = ({ id }: HttpCall) => ({ ...commonHeaders, "x-request-id": id.answered });

  function send(call: HttpCall, reply: Reply): void {
    const { request, response } = call;
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
        end(call, reply, () => writeReply(ctx, reply));
      } else {
        // Koa ends a response that is whole, and with it a connection on which the request still arrives. It
        // also logs each client that hangs up while a file is sent.
        ctx.respond = false;
        send(call, reply);
      }
    },
  };
}

/** Has Koa send a reply. */
function writeReply(
  ctx: Koa.ParameterizedContext<HttpCall>,
  { status, headers, cookies, body }: Reply,
): void {
  ctx.set(headers);
  if (cookies !== undefined) ctx.set("set-cookie", cookies);
  ctx.body = bodyBeside(ctx.state.id.answered, body);
  // Koa has chosen a status, and for a body without a type a type.
  ctx.status = status;
  if (headers["content-type"] === undefined) ctx.remove("content-type");
}
