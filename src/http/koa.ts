import type { IncomingMessage, ServerResponse } from "node:http";
import Router from "@koa/router";
import Koa from "koa";
import { ApiError } from "../errors.ts";
import { describeFault } from "../fault.ts";
import type { Logger } from "../log.ts";
import type { MountedRoute } from "./direct_routes.ts";
import { type Exchange, type FinishExchange, openExchange } from "./exchange.ts";
import type { Names } from "./names.ts";
import { errorReply, type Reply } from "./replies.ts";

type KoaDeps = {
  mounted: readonly MountedRoute[];
  names: Names;
  finish: FinishExchange;
  pages: readonly Koa.Middleware[];
  log: Logger;
  commonHeaders: Record<string, string>;
};

type KoaListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

type State = { exchange: Exchange };

/**
 * The part of the API behind Koa: operations with parameters in their path, pages, and the answer to what is neither.
 * Operations and errors are ended by `finish`, as everywhere.
 */
export function createKoa({ mounted, names, finish, pages, log, commonHeaders }: KoaDeps): KoaListener {
  const router = createRouter(mounted, names, finish);
  const koa = new Koa<State>();
  koa.on("error", (error: unknown) => log.warn({ fault: describeFault(error) }, "a response broke off"));
  koa.use(async (ctx, next) => {
    ctx.state.exchange = openExchange(ctx.req, ctx.res);
    ctx.set({ ...commonHeaders, "x-request-id": ctx.state.exchange.requestId });
    await next().catch((error: unknown) => endOutside(ctx, finish, () => Promise.reject(error)));
  });
  koa.use(router.routes() as unknown as Koa.Middleware<State>);
  for (const page of pages) koa.use(page);
  koa.use((ctx) =>
    endOutside(ctx, finish, async () => {
      const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap((layer) => layer.methods));
      if (methods.size === 0) throw new ApiError("not_found");
      return errorReply(
        new ApiError("method_not_allowed", undefined, { allow: [...methods].sort().join(", ") }),
      );
    }),
  );
  return koa.callback();
}

function createRouter(mounted: readonly MountedRoute[], names: Names, finish: FinishExchange) {
  const router = new Router<State>({ sensitive: true, strict: true, exclusive: "specificity" });
  for (const { route, serve } of mounted) {
    const paths = names
      .paths(route.path)
      .map((path) => path.replaceAll(/\{(\w+)\*\}/g, "*$1").replaceAll(/\{(\w+)\}/g, ":$1"));
    router.register(paths, [route.method], async (ctx) => {
      ctx.respond = false;
      await finish(ctx.state.exchange, route.id, ({ request, requestId }) =>
        serve({ message: request, params: ctx.params, requestId }),
      );
    });
  }
  return router;
}

/** Ends an exchange that is no operation's. */
async function endOutside(
  ctx: Koa.ParameterizedContext<State>,
  finish: FinishExchange,
  work: () => Promise<Reply>,
): Promise<void> {
  ctx.respond = false;
  await finish(ctx.state.exchange, "none", work);
}
