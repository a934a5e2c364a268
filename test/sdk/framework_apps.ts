import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import Router, { type RouterContext } from "@koa/router";
import express from "express";
import Fastify from "fastify";
import Koa from "koa";
import { type Guard, guardExpress, guardFastify, guardKoa } from "../../src/sdk/guard.ts";

/** The protected code of a test application. */
export type Handler = (seen: {
  body: unknown;
  /** The value to pass to `authorityOf`. */
  request: object;
}) => Promise<{ status: number; body: unknown }>;

/** A running application with the routes of {@link APPLICATIONS}. */
export type Application = { url: string; stop(): Promise<void> };

const SCOPES: Record<string, string | undefined> = { "/mapped/read": "data:read" };

/**
 * The same application in each framework. `POST /orders/:id/refund` requires a proof bound to an operation.
 * `POST /orders` requires only a scope. For paths below `/mapped`, a table maps routes to scopes.
 */
export const APPLICATIONS: Record<string, (guard: Guard, handler: Handler) => Promise<Application>> = {
  async express(guard, handler) {
    const app = express();
    app.use(express.json());
    const answer: express.RequestHandler = async (request, response) => {
      const { body } = request;
      const { status, body: said } = await handler({ body, request });
      response.status(status).json(said);
    };
    app.post(
      "/orders/:id/refund",
      guardExpress<express.Request<{ id: string }>>(guard, {
        requiredScope: "payments:send",
        operation: ({ params }) => ({ action: "refund", resourceId: params.id }),
      }),
      answer as express.RequestHandler<{ id: string }>,
    );
    app.post("/orders", guardExpress(guard, { requiredScope: "data:write" }), answer);
    app.post("/unguarded", answer);
    app.use(
      "/mapped",
      guardExpress(guard, { requiredScope: ({ originalUrl }) => SCOPES[originalUrl] }),
      answer,
    );
    app.use(((_error, _request, response, _next) => {
      response.status(500).json({ error: "handler" });
    }) satisfies express.ErrorRequestHandler);
    return listen(app);
  },

  async koa(guard, handler) {
    const app = new Koa();
    app.silent = true;
    app.use(async (context, next) => {
      const text = Buffer.concat(await context.req.toArray()).toString();
      if (context.is("json")) Object.assign(context.request, { body: JSON.parse(text) });
      await next();
    });
    const answer = async (context: Koa.Context) => {
      const body = "body" in context.request ? context.request.body : undefined;
      const said = await handler({ body, request: context });
      context.status = said.status;
      context.body = said.body;
    };
    const router = new Router();
    router.post(
      "/orders/:id/refund",
      guardKoa<RouterContext>(guard, {
        requiredScope: "payments:send",
        operation: ({ params }) => ({ action: "refund", resourceId: params.id }),
      }),
      answer,
    );
    router.post("/orders", guardKoa(guard, { requiredScope: "data:write" }), answer);
    router.post("/unguarded", answer);
    router.all(
      "/mapped/*rest",
      guardKoa(guard, { requiredScope: ({ originalUrl }) => SCOPES[originalUrl] }),
      answer,
    );
    app.use(router.routes());
    return listen(app.callback());
  },

  async fastify(guard, handler) {
    const app = Fastify();
    const answer = async (
      request: object,
      reply: { code(status: number): { send(body: unknown): unknown } },
    ) => {
      const { body } = request as { body: unknown };
      const said = await handler({ body: body ?? undefined, request });
      return reply.code(said.status).send(said.body);
    };
    app.post<{ Params: { id: string } }>(
      "/orders/:id/refund",
      {
        preHandler: guardFastify(guard, {
          requiredScope: "payments:send",
          operation: (request) => ({ action: "refund", resourceId: idOf(request) }),
        }),
      },
      answer,
    );
    app.post("/orders", { preHandler: guardFastify(guard, { requiredScope: "data:write" }) }, answer);
    app.post("/unguarded", answer);
    app.all(
      "/mapped/*",
      { preHandler: guardFastify(guard, { requiredScope: ({ originalUrl }) => SCOPES[originalUrl] }) },
      answer,
    );
    const url = await app.listen({ host: "127.0.0.1", port: 0 });
    return { url, stop: () => app.close() };
  },
};

function idOf(request: object): string {
  return (request as { params: { id: string } }).params.id;
}

async function listen(listener: RequestListener): Promise<Application> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
