import type { IncomingMessage, RequestListener } from "node:http";
import type Koa from "koa";
import type { Clock } from "../clock.ts";
import type { ApiConfig } from "../config.ts";
import { createNames } from "../input/names.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Activity } from "../organizations/activity.ts";
import type { Route } from "../route.ts";
import { createArrivals, createReadArriving } from "./exchange/arrivals.ts";
import { createConclude, createObserve } from "./exchange/conclude.ts";
import { createDrains } from "./exchange/drains.ts";
import { createFinishExchange, openExchange } from "./exchange/finish_exchange.ts";
import { createFindOperation, createInProcess } from "./exchange/in_process.ts";
import {
  createDirectPaths,
  createServePath,
  type MountedRoute,
  pathOf,
  pathRoutesOf,
} from "./exchange/path_routes.ts";
import { createRouteHandler } from "./exchange/route_handler.ts";
import { securityHeaders } from "./exchange/security_headers.ts";
import { createKoa } from "./koa.ts";
import type { ApiKeyRates } from "./request/api_key_rates.ts";
import type { Authenticators } from "./request/authenticate.ts";
import { createClientAddress, createNetworks } from "./request/client_address.ts";
import { createCookies } from "./request/cookies.ts";
import type { Idempotency } from "./request/idempotency.ts";
import { isForRole } from "./request/roles.ts";
import type { Site, SiteDeps } from "./site.ts";

/** What the API's HTTP side is made of. */
export type AppDeps = {
  routes: readonly Route[];
  /** Serves the operator's operations and nothing else; without it everything but these. */
  forOperator?: true;
  /** Middleware for everything that is not an operation of the contract: documents and pages for people. */
  pages?: readonly Koa.Middleware[];
  /** Makes pages that call operations. */
  site?: (deps: SiteDeps) => Site;
  config: Pick<ApiConfig, "BASE_URL" | "SERVICE_WORD" | "SERVICE_WORD_ALIASES" | "TRUSTED_PROXIES">;
  authenticators: Authenticators;
  idempotency: Idempotency;
  rates: ApiKeyRates;
  activity: Activity;
  /** Bodies that one client may have on their way; each has `bodyMs` milliseconds. Default 100 and 10,000. */
  bodies?: { perClient: number; bodyMs?: number } | undefined;
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  /** For tests: an answer that differs from its route's declaration becomes `internal`. */
  checkAnswers?: boolean;
  /** Milliseconds in which every call is answered. Default 15,000. */
  deadlineMs?: number;
};

const DEADLINE_MS = 15_000;
/** Pages say themselves that an answer is late: they have this part of the time. */
const SITE_SHARE = 0.8;
const BODIES_PER_CLIENT = 100;

/**
 * The listener of the API's public port, or of the operator's own: an operation of the operator does not
 * exist on the other, whatever the token. Every operation is served under the service's word and its aliases;
 * an unknown path is `not_found`, a known one with another method `method_not_allowed`: which path it is
 * never depends on the method. Throws when two routes have the same id or place.
 *
 * Operations whose path has no parameter are found by one look-up and do without Koa: on verify its router
 * costs more than all else that happens here. Everything else goes through Koa's router, and ends in the same
 * place.
 */
export function createApp(deps: AppDeps): RequestListener {
  const { config, log, clock, metrics } = deps;
  const names = createNames(config.SERVICE_WORD, config.SERVICE_WORD_ALIASES);
  const clientAddress = createClientAddress(config.TRUSTED_PROXIES);
  const networkOf = createNetworks();
  const arrivals = createArrivals(deps.bodies ?? { perClient: BODIES_PER_CLIENT });
  const readArriving = createReadArriving(arrivals, networkOf);
  const addressOf = ({ socket, headers }: IncomingMessage) =>
    clientAddress(socket.remoteAddress, headers["x-forwarded-for"]?.toString());
  const cookies = createCookies(names, config.BASE_URL);
  const handlerDeps = {
    authenticators: deps.authenticators,
    names,
    cookies,
    clientAddress,
    readArriving,
    idempotency: deps.idempotency,
    rates: deps.rates,
    activity: deps.activity,
    checkAnswers: deps.checkAnswers ?? false,
  };
  const commonHeaders = securityHeaders(config.BASE_URL);
  const { deadlineMs = DEADLINE_MS } = deps;
  const conclude = createConclude({ log, clock, metrics, deadlineMs });
  const observe = createObserve(metrics);
  const finish = createFinishExchange({
    conclude,
    observe,
    log,
    commonHeaders,
    drains: createDrains(),
    clientOf: (request) => networkOf(addressOf(request)),
  });
  const mounted = deps.routes
    .filter(({ access }) => (access === "operator") === (deps.forOperator ?? false))
    .map((route) => ({ route, serve: createRouteHandler(route, handlerDeps) }));
  refuseDuplicates(mounted);
  const routes = pathRoutesOf(mounted, names);
  const direct = createDirectPaths(routes);
  const servePath = createServePath(finish);
  const find = createFindOperation(mounted);
  const siteDeps: SiteDeps = {
    inProcess: createInProcess({ find, conclude, observe, names }),
    isForRole: (id, powers) => isForRole(find(id).route, powers),
    conclude: createConclude({ log, clock, metrics, deadlineMs: deadlineMs * SITE_SHARE }),
    cookies,
    readBody: ({ request }) => readArriving(request, () => addressOf(request)),
    baseUrl: config.BASE_URL,
    names,
  };
  const koa = createKoa({
    routes,
    site: deps.site?.(siteDeps),
    servePath,
    finish,
    pages: deps.pages ?? [],
    log,
    clock,
    commonHeaders,
  });
  return (request, response) => {
    const found = direct.get(pathOf(request.url ?? ""));
    if (found === undefined) {
      void koa(request, response);
    } else {
      void servePath(found, openExchange(request, response), {});
    }
  };
}

function refuseDuplicates(mounted: readonly MountedRoute[]): void {
  const seen = new Set<string>();
  for (const { route } of mounted) {
    for (const name of [route.id, `${route.method} ${route.path.replaceAll(/\{\w+\*?\}/g, "{}")}`]) {
      if (seen.has(name)) throw new Error(`Two routes have the name ${name}`);
      seen.add(name);
    }
  }
}
