import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import Router, { type RouterContext } from "@koa/router";
import express from "express";
import Fastify from "fastify";
import Koa from "koa";
import {
  type Guard,
  guardExpress,
  guardFastify,
  guardFetch,
  guardKoa,
  type WebHandler,
} from "../../src/sdk/guard.ts";

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

  async web(guard, handler) {
    const answer: WebHandler<[]> = async (request, { payload }) => {
      const { status, body } = await handler({ body: payload, request });
      return Response.json(body, { status });
    };
    const routes: [RegExp, (request: Request) => Promise<Response>][] = [
      [
        /^\/orders\/[^/]+\/refund$/,
        guardFetch(
          guard,
          {
            requiredScope: "payments:send",
            operation: ({ url }) => ({
              action: "refund",
              resourceId: new URL(url).pathname.split("/")[2] ?? "",
            }),
          },
          answer,
        ),
      ],
      [/^\/orders$/, guardFetch(guard, { requiredScope: "data:write" }, answer)],
      [
        /^\/unguarded$/,
        async (request) => {
          const { status, body } = await handler({ body: undefined, request });
          return Response.json(body, { status });
        },
      ],
      [
        /^\/mapped\//,
        guardFetch(guard, { requiredScope: ({ url }) => SCOPES[new URL(url).pathname] }, answer),
      ],
    ];
    return listenWeb(async (request) => {
      const { pathname } = new URL(request.url);
      const [, route] = routes.find(([path]) => path.test(pathname)) ?? [];
      return (await route?.(request)) ?? new Response(null, { status: 404 });
    });
  },
};

/** Serves a web-standard handler with Node's server, as adapters of such frameworks do. */
export function listenWeb(handler: (request: Request) => Promise<Response>): Promise<Application> {
  return listen(async (incoming, outgoing) => {
    const { method = "GET", url = "/", headers } = incoming;
    const hasNoBody = method === "GET" || method === "HEAD";
    const request = new Request(`http://${headers.host}${url}`, {
      method,
      headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
      ...(hasNoBody ? {} : { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: "half" }),
    });
    const response = await handler(request).catch(() => new Response(null, { status: 500 }));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  });
}

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
