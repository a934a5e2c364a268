import type { Guard } from "../create_guard.ts";
import {
  type AnyResponse,
  authorizeRequest,
  checkRoute,
  type Message,
  type Route,
  refusalBody,
  replacesBody,
  reportAtEnd,
} from "../route.ts";

/** The parts of Fastify's request that the guard uses. */
export type FastifyRequest = { raw: Message; originalUrl: string; body: unknown };

/** The parts of Fastify's reply that the guard uses. */
export type FastifyReply = {
  raw: AnyResponse;
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: unknown): unknown;
};

/**
 * Returns a Fastify `preHandler` hook that runs the handler only after an explicit `allow` decision, and
 * responds with 403 or 503 otherwise. `request.body` becomes the frozen copy, and `authorityOf(request)`
 * returns the authority.
 */
export function guardFastify<Request extends FastifyRequest>(
  guard: Guard,
  route: Route<Request>,
): (request: NoInfer<Request>, reply: FastifyReply) => Promise<unknown> {
  checkRoute(guard, route);
  return async (request, reply) => {
    const { raw: message, originalUrl: target, body } = request;
    const view = { message, target, body: body ?? undefined };
    const authorization = await authorizeRequest(guard, route, request, view);
    if (!authorization.allowed) {
      const refusal = await refusalBody(guard, view, authorization.refusal);
      reply.code(authorization.refusal.status);
      reply.header("cache-control", "no-store");
      reply.send(refusal);
      return reply;
    }
    const { authority } = authorization;
    if (replacesBody(route, authority)) request.body = authority.payload;
    reportAtEnd(reply.raw, authority);
    return undefined;
  };
}
