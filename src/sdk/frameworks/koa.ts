import type { IncomingMessage } from "node:http";
import type { Guard } from "../create_guard.ts";
import {
  authorizeRequest,
  checkRoute,
  outcomeOfStatus,
  type Route,
  refusalBody,
  replacesBody,
} from "../route.ts";

/** The parts of Koa's context that the guard uses. */
export type KoaContext = {
  req: IncomingMessage;
  request: object;
  originalUrl: string;
  status: number;
  body: unknown;
  set(name: string, value: string): void;
};

/**
 * Returns Koa middleware that runs the next middleware only after an explicit `allow` decision, and responds
 * with 403 or 503 otherwise. Put it after the body parser. `ctx.request.body` becomes the frozen copy, and
 * `authorityOf(ctx)` returns the authority.
 */
export function guardKoa<Context extends KoaContext>(
  guard: Guard,
  route: Route<Context>,
): (context: Context, next: () => Promise<unknown>) => Promise<void> {
  checkRoute(guard, route);
  return async (context, next) => {
    const { request, originalUrl: target } = context;
    const body = "body" in request ? request.body : undefined;
    const view = { message: context.req, target, body };
    const authorization = await authorizeRequest(guard, route, context, view);
    if (!authorization.allowed) {
      const refusal = await refusalBody(guard, view, authorization.refusal);
      context.status = authorization.refusal.status;
      context.set("cache-control", "no-store");
      context.body = refusal;
      return;
    }
    const { authority } = authorization;
    if (replacesBody(route, authority)) Object.assign(request, { body: authority.payload });
    try {
      await next();
    } catch (error) {
      authority.report(outcomeOfStatus(statusOf(error)), error instanceof Error ? error.name : undefined);
      throw error;
    }
    authority.report(outcomeOfStatus(context.status), `HTTP ${context.status}`);
  };
}

function statusOf(error: unknown): number {
  const { status, statusCode } = Object(error) as { status?: unknown; statusCode?: unknown };
  const given = status || statusCode;
  return typeof given === "number" && given >= 400 ? given : 500;
}
