import type { IncomingMessage, RequestListener } from "node:http";
import Koa from "koa";
import type { Clock } from "../clock.ts";
import type { ApiConfig } from "../config.ts";
import { ApiError } from "../errors.ts";
import { createNames } from "../input/names.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Activity } from "../organizations/activity.ts";
import type { ApiKeyRates } from "../rates/api_key_rates.ts";
import type { ChangeRates } from "../rates/change_rates.ts";
import type { Route } from "../route.ts";
import { createAnswering } from "./answer.ts";
import { type Authenticators, callerChecks, isForRole } from "./authenticate.ts";
import { createBodyLimits, createReadBody } from "./body.ts";
import { createClientAddress, createNetworks } from "./client_address.ts";
import { createCookies } from "./cookies.ts";
import { createBreakLog, createObserve, createRunCall, deadline, refusals, requestId } from "./deadline.ts";
import { HttpCall, inOrder, type Middleware } from "./http_call.ts";
import type { Idempotency } from "./idempotency.ts";
import { createFindOperation, createInProcess, type Site, type SiteDeps } from "./in_process.ts";
import * as operation from "./operation.ts";
import { createFindDirect, createPaths, createRouter, type Operation } from "./paths.ts";
import { securityHeaders } from "./replies.ts";
import { createUnreadBodies } from "./server/unread_body.ts";

/** Dependencies and settings of the HTTP side of the API. */
export type AppDeps = {
  routes: readonly Route[];
  /** If set, the app serves only the operator's operations. Otherwise it serves all other operations. */
  forOperator?: true;
  /** Middleware for all paths that are not operations: documents and pages for people. */
  pages?: readonly Koa.Middleware[];
  /** Creates the pages that call operations. */
  site?: (deps: SiteDeps) => Site;
  config: Pick<ApiConfig, "BASE_URL" | "SERVICE_WORD" | "SERVICE_WORD_ALIASES" | "TRUSTED_PROXIES">;
  authenticators: Authenticators;
  idempotency: Idempotency;
  rates: ApiKeyRates;
  changeRates: ChangeRates;
  activity: Activity;
  /** Number of bodies of one client at a time (default 100), and milliseconds for each (default 10,000). */
  bodies?: { perClient: number; bodyMs?: number } | undefined;
  log: Logger;
  clock: Clock;
  metrics: Metrics;
  /** For tests: an answer that does not match its route's schema becomes `internal`. */
  checkAnswers?: boolean;
  /** Milliseconds within which every call receives a reply. Default 15,000. */
  deadlineMs?: number;
};

const DEADLINE_MS = 15_000;
/** Fraction of the deadline after which a page's call fails. The rest remains to send an error page. */
const SITE_SHARE = 0.8;
const BODIES_PER_CLIENT = 100;

/**
 * Returns the request listener of the API's public port, or of the operator's port. Operator operations exist
 * only on the operator's port, whatever token a caller sends. Each path exists with the service's name and
 * with each alias of this name.
 *
 * An unknown path returns `not_found`. A known path with a wrong method returns `method_not_allowed`. Throws
 * if two routes have the same id, or the same method and path.
 */
export function createApp(deps: AppDeps): RequestListener {
  const parts = createParts(deps);
  const { names, readers, answering, everyCall } = parts;
  const operations = deps.routes
    .filter(({ access }) => (access === "operator") === (deps.forOperator ?? false))
    .map((route) => ({ route, run: inOrder(operationMiddleware(route, parts)) }));
  const paths = createPaths(operations, names);
  const site = deps.site?.(siteDeps(deps, parts, operations));

  const koa = new Koa<HttpCall>();
  koa.use((ctx, next) => {
    ctx.state = new HttpCall(ctx.req, ctx.res, readers);
    return next();
  });
  koa.use(answering.answer); // sends the reply and counts it
  for (const middleware of everyCall) koa.use(middleware);
  koa.use(createRouter(paths).routes() as unknown as Koa.Middleware<HttpCall>);
  for (const page of deps.pages ?? []) koa.use(page);
  if (site !== undefined) koa.use(siteMiddleware(site));
  koa.use(() => Promise.reject(new ApiError("not_found")));
  koa.on("error", createBreakLog(deps));

  const throughKoa = koa.callback();
  const findDirect = createFindDirect(paths, names, everyCall);
  return (request, response) => {
    const direct = findDirect(request.url ?? "");
    if (direct === undefined) {
      void throughKoa(request, response);
    } else {
      const call = new HttpCall(request, response, readers);
      call.params = direct.params;
      void direct.run({ state: call }).then((reply) => answering.send(call, reply));
    }
  };
}

/** Returns the middleware of one operation, in the order in which it runs after `everyCall`. */
function operationMiddleware(route: Route, parts: Parts): Middleware[] {
  const { names, cookies, readBody, authenticators, idempotency, activity, rates, changeRates } = parts;
  const { caller, csrf, role } = callerChecks(route, authenticators, cookies);
  const provenLately = operation.provenLately([caller, csrf, role]);
  return [
    operation.traced,
    operation.rateAndChallengeHeaders(route, names, cookies),
    operation.ignoredKey(route),
    operation.passes(caller),
    operation.passes(csrf),
    operation.passes(role),
    operation.passes(operation.changesOf(route, changeRates)),
    operation.passes(operation.keyOf(route)),
    operation.passes(operation.body(readBody)),
    operation.passes(provenLately),
    operation.passes(operation.inputOf(route)),
    operation.passes(operation.ownAgent),
    operation.once(route, idempotency, provenLately),
    operation.activityOf(route, activity),
    operation.rateOf(route, rates),
    operation.handler(route, cookies, parts.checkAnswers),
  ].filter((middleware) => middleware !== undefined);
}

type Parts = ReturnType<typeof createParts>;

function createParts(deps: AppDeps) {
  const { config, log, clock, metrics, deadlineMs = DEADLINE_MS, checkAnswers = false } = deps;
  const { authenticators, idempotency, activity, rates, changeRates } = deps;
  const names = createNames(config.SERVICE_WORD, config.SERVICE_WORD_ALIASES);
  const cookies = createCookies(names, config.BASE_URL);
  const clientAddress = createClientAddress(config.TRUSTED_PROXIES);
  const networkOf = createNetworks();
  const addressOf = ({ socket, headers }: IncomingMessage) =>
    clientAddress(socket.remoteAddress, headers["x-forwarded-for"]?.toString());
  const observe = createObserve(metrics);
  const runCall = createRunCall({ log, clock, metrics, deadlineMs });
  const answering = createAnswering({
    observe,
    log,
    commonHeaders: securityHeaders(config.BASE_URL),
    unreadBodies: createUnreadBodies(),
    clientOf: (request) => networkOf(addressOf(request)),
    cookies,
  });
  const bodyLimits = createBodyLimits(deps.bodies ?? { perClient: BODIES_PER_CLIENT });
  return {
    names,
    cookies,
    readers: { names, cookies, clientAddress },
    readBody: createReadBody(bodyLimits, networkOf),
    addressOf,
    observe,
    runCall,
    answering,
    /** Runs before the router and before the direct paths. */
    everyCall: [refusals, deadline(runCall), requestId],
    authenticators,
    idempotency,
    activity,
    rates,
    changeRates,
    checkAnswers,
  };
}

function siteDeps(
  { config, log, clock, metrics, deadlineMs = DEADLINE_MS }: AppDeps,
  { names, cookies, readers, readBody, addressOf, observe, runCall }: Parts,
  operations: readonly Operation[],
): SiteDeps {
  const find = createFindOperation(operations);
  return {
    inProcess: createInProcess({ find, runCall, observe, readers }),
    isForRole: (id, powers) => isForRole(find(id).route, powers),
    runCall: createRunCall({ log, clock, metrics, deadlineMs: deadlineMs * SITE_SHARE }),
    cookies,
    readBody: ({ request }) => readBody(request, () => addressOf(request)),
    baseUrl: config.BASE_URL,
    names,
  };
}

function siteMiddleware(site: Site): Koa.Middleware<HttpCall> {
  return async (ctx, next) => {
    if (!site.serves(ctx.path)) return next();
    ctx.state.route = site.id;
    return site.answer(ctx.state);
  };
}

/** Redirects browsers from `GET /` to the console at `consoleUrl`. Other clients receive `not_found`. */
export function frontPage(consoleUrl: string): Koa.Middleware {
  return async (ctx, next) => {
    const isRead = ctx.method === "GET" || ctx.method === "HEAD";
    if (ctx.path !== "/" || !isRead || ctx.accepts("json", "html") !== "html") return next();
    ctx.redirect(consoleUrl);
  };
}
