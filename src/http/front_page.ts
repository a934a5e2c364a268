import type Koa from "koa";

/** Redirects browsers from `GET /` to the console at `consoleUrl`. Other clients receive `not_found`. */
export function frontPage(consoleUrl: string): Koa.Middleware {
  return async (ctx, next) => {
    const isRead = ctx.method === "GET" || ctx.method === "HEAD";
    if (ctx.path !== "/" || !isRead || ctx.accepts("json", "html") !== "html") return next();
    ctx.redirect(consoleUrl);
  };
}
