import { type IncomingMessage, METHODS, type ServerResponse } from "node:http";
import Router from "@koa/router";
import Koa from "koa";
import type { Clock } from "../clock.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { createBreakLog } from "./exchange/fault_log.ts";
import { type Exchange, type FinishExchange, openExchange } from "./exchange/finish_exchange.ts";
import type { PathRoutes, ServePath } from "./exchange/path_routes.ts";
import { bodyBeside } from "./exchange/replies.ts";
import type { Site } from "./site.ts";

type KoaDeps = {
  routes: readonly PathRoutes[];
  site: Site | undefined;
  servePath: ServePath;
  finish: FinishExchange;
  pages: readonly Koa.Middleware[];
  log: Logger;
  clock: Clock;
  commonHeaders: Record<string, string>;
};

type KoaListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

type State = { exchange: Exchange };

/**
 * The part of the API behind Koa: operations with parameters in their path, pages, and the answer to what is
 * neither. Operations and errors are ended by `finish`, as everywhere.
 */
export function createKoa({
  routes,
  site,
  servePath,
  finish,
  pages,
  log,
  clock,
  commonHeaders,
}: KoaDeps): KoaListener {
  const router = createRouter(routes, servePath);
  const koa = new Koa<State>();
  koa.on("error", createBreakLog({ log, clock }));
  koa.use(async (ctx, next) => {
    ctx.state.exchange = openExchange(ctx.req, ctx.res);
    ctx.set({ ...commonHeaders, "x-request-id": ctx.state.exchange.id.answered });
    if (ctx.state.exchange.id.fault !== undefined) {
      return endOutside(ctx, finish, new ApiError("invalid_request"));
    }
    await next().catch((error: unknown) => endOutside(ctx, finish, error));
    if (typeof ctx.body === "string") ctx.body = bodyBeside(ctx.state.exchange.id.answered, ctx.body);
  });
  koa.use(router.routes() as unknown as Koa.Middleware<State>);
  for (const page of pages) koa.use(page);
  if (site !== undefined) {
    koa.use(async (ctx, next) => {
      if (!site.serves(ctx.path)) return next();
      ctx.respond = false;
      return finish(ctx.state.exchange, site.id, (exchange) => site.answer(exchange));
    });
  }
  koa.use((ctx) => endOutside(ctx, finish, new ApiError("not_found")));
  return koa.callback();
}

/**
 * Each path takes every method, so that the path alone says which one it is; fewer parameters win, then
 * the order.
 */
function createRouter(routes: readonly PathRoutes[], servePath: ServePath) {
  const router = new Router<State>({ sensitive: true, strict: true, exclusive: "specificity" });
  for (const served of routes.filter(({ paths }) => paths.some((path) => path.includes("{")))) {
    const paths = served.paths.map((path) =>
      path.replaceAll(/\{(\w+)\*\}/g, "*$1").replaceAll(/\{(\w+)\}/g, ":$1"),
    );
    router.register(paths, METHODS, async (ctx) => {
      ctx.respond = false;
      await servePath(served, ctx.state.exchange, ctx.params);
    });
  }
  return router;
}

/** Ends an exchange that does not belong to an operation. */
async function endOutside(
  ctx: Koa.ParameterizedContext<State>,
  finish: FinishExchange,
  error: unknown,
): Promise<void> {
  ctx.respond = false;
  await finish(ctx.state.exchange, "none", () => Promise.reject(error));
}
