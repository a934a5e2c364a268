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

/** What the guard needs of Koa's context. */
export type KoaContext = {
  req: IncomingMessage;
  request: object;
  originalUrl: string;
  status: number;
  body: unknown;
  set(name: string, value: string): void;
};

/**
 * Koa middleware that lets the next middleware run only on an explicit allow, and answers 403 or 503
 * otherwise. It goes behind the parser of the body. `ctx.request.body` becomes the frozen copy;
 * `authorityOf(ctx)` gives the rest.
 */
export function guardKoa<Context extends KoaContext>(
  guard: Guard,
  route: Route<Context>,
): (context: Context, next: () => Promise<unknown>) => Promise<void> {
  checkRoute(route);
  return async (context, next) => {
    const { request, originalUrl: target } = context;
    const body = "body" in request ? request.body : undefined;
    const authorization = await authorizeRequest(guard, route, context, {
      message: context.req,
      target,
      body,
    });
    if (!authorization.allowed) {
      context.status = authorization.refusal.status;
      context.set("cache-control", "no-store");
      context.body = refusalBody(authorization.refusal);
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

/** The status that Koa answers an error with. */
function statusOf(error: unknown): number {
  const { status, statusCode } = Object(error) as { status?: unknown; statusCode?: unknown };
  const given = status || statusCode;
  return typeof given === "number" && given >= 400 ? given : 500;
}
