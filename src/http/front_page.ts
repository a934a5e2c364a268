import type Koa from "koa";

/** `GET /` sends browsers to the console at `consoleUrl`. For programs the path stays `not_found`. */
export function frontPage(consoleUrl: string): Koa.Middleware {
  return async (ctx, next) => {
    const isRead = ctx.method === "GET" || ctx.method === "HEAD";
    if (ctx.path !== "/" || !isRead || ctx.accepts("json", "html") !== "html") return next();
    ctx.redirect(consoleUrl);
  };
}
