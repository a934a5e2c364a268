import type Koa from "koa";

/** Serves a document at `path` as JSON. The document is created at the first request. */
export function jsonPage(path: string, document: () => object): Koa.Middleware {
  let text: string | undefined;
  return async (ctx, next) => {
    if (ctx.path !== path || (ctx.method !== "GET" && ctx.method !== "HEAD")) return next();
    text ??= JSON.stringify(document());
    ctx.type = "application/json";
    ctx.body = text;
  };
}
