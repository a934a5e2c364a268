import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "../create_guard.ts";
import {
  authorizeRequest,
  checkRoute,
  type Route,
  refusalBody,
  replacesBody,
  reportAtEnd,
} from "../route.ts";

/** The parts of Express's request that the guard uses. */
export type ExpressRequest = IncomingMessage & { originalUrl: string; body?: unknown };

/**
 * Returns Express middleware (4 and 5) that runs the route's handlers only after an explicit `allow`
 * decision, and responds with 403 or 503 otherwise. Put it after the body parser. `request.body` becomes the
 * frozen copy, and `authorityOf(request)` returns the authority.
 */
export function guardExpress<Request extends ExpressRequest>(
  guard: Guard,
  route: Route<Request>,
): (request: Request, response: ServerResponse, next: (error?: unknown) => void) => void {
  checkRoute(guard, route);
  async function pass(request: Request, response: ServerResponse): Promise<boolean> {
    const { originalUrl: target, body } = request;
    const view = { message: request, target, body };
    const authorization = await authorizeRequest(guard, route, request, view);
    if (!authorization.allowed) {
      const refusal = await refusalBody(guard, view, authorization.refusal);
      response.statusCode = authorization.refusal.status;
      response.setHeader("content-type", "application/json; charset=utf-8");
      response.setHeader("cache-control", "no-store");
      response.end(JSON.stringify(refusal));
      return false;
    }
    const { authority } = authorization;
    if (replacesBody(route, authority)) request.body = authority.payload;
    reportAtEnd(response, authority);
    return true;
  }
  return (request, response, next) => {
    void pass(request, response).then((isAllowed) => {
      if (isAllowed) next();
    }, next);
  };
}
