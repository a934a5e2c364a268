import type Koa from "koa";

/** Serves a document at `path` as JSON. The JSON is created once. */
export function jsonPage(path: string, document: object): Koa.Middleware {
  const text = JSON.stringify(document);
  return async (ctx, next) => {
    if (ctx.path !== path || (ctx.method !== "GET" && ctx.method !== "HEAD")) return next();
    ctx.type = "application/json";
    ctx.body = text;
  };
}
