import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { type ZodType, z } from "zod";
import { ApiError } from "../../errors.ts";
import type { Names } from "../../input/names.ts";
import { validate } from "../../input/validate.ts";
import type { Activity } from "../../organizations/activity.ts";
import type {
  AccountCaller,
  Answer,
  ApiKeyCaller,
  Call,
  CookieName,
  Route,
  SessionCaller,
} from "../../route.ts";
import { inTrace } from "../../trace_context.ts";
import { routeErrors } from "../openapi/route_errors.ts";
import type { ApiKeyRates } from "../request/api_key_rates.ts";
import { type Authenticate, type Authenticators, authenticateRoute } from "../request/authenticate.ts";
import { declaresJson, parseBody, requireJson } from "../request/body.ts";
import type { ClientAddress } from "../request/client_address.ts";
import type { Cookies } from "../request/cookies.ts";
import { readHeader } from "../request/header.ts";
import { type Idempotency, idempotencyKey, type KeyedCall } from "../request/idempotency.ts";
import { readQuery } from "../request/query.ts";
import type { ReadArriving } from "./arrivals.ts";
import { jsonReply, type Reply } from "./replies.ts";
import { challengesOf } from "./www_authenticate.ts";

/** What serving a route takes. */
export type RouteHandlerDeps = {
  authenticators: Authenticators;
  names: Names;
  cookies: Cookies;
  clientAddress: ClientAddress;
  idempotency: Idempotency;
  rates: ApiKeyRates;
  activity: Activity;
  readArriving: ReadArriving;
  /**
   * Holds every answer against its route's declaration. For tests: a difference is answered as `internal`.
   */
  checkAnswers: boolean;
};

/** One request to a route, as the router found it. */
export type Request = { message: IncomingMessage; params: Record<string, string>; requestId: string };

/** Answers requests to one route. Rejects with an `ApiError`, or with what broke. */
export type HandleRequest = (request: Request) => Promise<Reply>;

/** Milliseconds for which it is known who calls. */
const PROVEN_MS = 250;

type AnyCall = Call<Route["access"], unknown, unknown, unknown>;

/**
 * How a route is served, in order: who calls, what is sent, is it well-formed, do it, answer. Every 401 says
 * how the caller is proven.
 */
export function createRouteHandler(route: Route, deps: RouteHandlerDeps): HandleRequest {
  const authenticate = authenticateRoute(route, deps.authenticators, deps.cookies);
  const handle = deps.checkAnswers ? checked(route) : route.handle.bind(route);
  const run = recorded(route, rated(route, handle, deps.rates), deps.activity);
  const challenges = challengesOf(route, deps.names);
  const serve: HandleRequest = async (request) => {
    const call = new IncomingCall(request, deps);
    const prove = () => proveLately(call, authenticate);
    await prove();
    const key = readIdempotencyKey(route, call);
    const bytes = await deps.readArriving(call.message, () => call.ip);
    await prove();
    validateParts(route, call, bytes);
    const reply =
      key === undefined
        ? answerReply(route, await run(call), deps.cookies)
        : await serveOnce({ route, call, bytes, key, prove }, run, deps);
    if (call.rate !== undefined) Object.assign(reply.headers, call.rate);
    return reply;
  };
  return (request) =>
    inTrace(request.message.headers.traceparent, () => serve(request)).catch((error: unknown) =>
      Promise.reject(challenged(error, challenges)),
    );
}

/**
 * Proves a call's caller when that was not done just now. A body may come slowly, and a key may be waited
 * for: who was removed, signed out or lost a role meanwhile is refused.
 */
async function proveLately(call: IncomingCall, authenticate: Authenticate): Promise<void> {
  if (performance.now() - call.provenAt < PROVEN_MS) return;
  call.caller = await authenticate({ request: call.message, header: call.header });
  call.provenAt = performance.now();
}

function challenged(error: unknown, challenges: string | undefined): unknown {
  if (challenges === undefined || !(error instanceof ApiError) || error.status !== 401) return error;
  return new ApiError(error.code, error.message, { ...error.headers, "www-authenticate": challenges });
}

/**
 * The key of a call that takes one. A call that takes none is refused with it: ignored, it would be a broken
 * promise.
 */
function readIdempotencyKey({ idempotent }: Route, call: IncomingCall): string | undefined {
  const key = idempotent === "foreign" ? undefined : call.header("idempotency-key");
  if (key === undefined) return undefined;
  if (idempotent !== true) {
    throw new ApiError("invalid_request", "idempotency-key: this call does not take one; leave it out");
  }
  return validate(idempotencyKey, key, "idempotency-key");
}

/** A call while it is put together. Its address and headers are worked out only when they are asked for. */
class IncomingCall implements AnyCall {
  caller: AnyCall["caller"];
  provenAt = Number.NEGATIVE_INFINITY;
  params: unknown;
  query: unknown;
  body: unknown;
  /** Headers that tell what is left of its rate, once it was counted. */
  rate: Record<string, string> | undefined;
  readonly requestId: string;
  readonly header: (name: string) => string | undefined;
  readonly cookie: (name: CookieName) => string | undefined;
  readonly message: IncomingMessage;
  readonly #deps: RouteHandlerDeps;

  constructor({ message, params, requestId }: Request, deps: RouteHandlerDeps) {
    this.message = message;
    this.params = params;
    this.requestId = requestId;
    this.#deps = deps;
    // The engine expects a function that is written where it is assigned to live long, and keeps it, with the
    // call in its scope, until the heap is collected as a whole.
    const header = (name: string) => readHeader(message, deps.names.headers(name));
    const cookie = (name: CookieName) => deps.cookies.read(message.headers.cookie, name);
    this.header = header;
    this.cookie = cookie;
  }

  get ip(): string {
    return this.#deps.clientAddress(this.message.socket.remoteAddress, this.header("x-forwarded-for"));
  }
}

/**
 * A path parameter that has not the form of an id names nothing, so it is `not_found` like any unknown id. A
 * route that takes no body ignores one, unless it claims to be JSON and is not.
 */
function validateParts(route: Route, call: IncomingCall, bytes: Buffer): void {
  call.params = readParams(route.params, call.params as Record<string, string>);
  if (route.query !== undefined) {
    call.query = validate(route.query, readQuery(call.message.url ?? ""), "query");
  }
  if (route.bodyForm === "raw" || route.body !== undefined) requireJson(call.message, bytes);
  if (route.bodyForm === "raw") {
    call.body = bytes;
  } else if (route.body !== undefined) {
    call.body = validate(route.body, parseBody(bytes), "body");
  } else if (declaresJson(call.message)) parseBody(bytes);
}

function readParams(schema: ZodType | undefined, params: Record<string, string>): unknown {
  const result = schema === undefined ? { success: true, data: params } : schema.safeParse(params);
  if (!result.success) throw new ApiError("not_found");
  return result.data;
}

type Run = (call: IncomingCall) => Promise<Answer<unknown>>;

/**
 * Counts a call for its rate before it is run; one that is refused is taken back where the rate counts what
 * is made.
 */
function rated({ id, rate }: Route, run: Run, rates: ApiKeyRates): Run {
  if (rate === undefined) return run;
  return async (call) => {
    const { caller } = call;
    if (caller === undefined || !("keyPrefix" in caller)) throw new Error(`${id}: only API keys have rates`);
    call.rate = await rates.take(rate, caller);
    return run(call).catch(async (error: unknown) => {
      await rates.giveBack(rate, caller);
      throw error;
    });
  };
}

/** Has it written down who makes a changing call for an organization. */
function recorded(route: Route, run: Run, activity: Activity): Run {
  const isOf = route.access === "session" || route.access === "account";
  if (!isOf || route.method === "GET" || typeof route.roles === "string") return run;
  return async (call) => {
    const { caller } = call;
    const isTold = caller !== undefined && "person" in caller && caller.organization;
    if (!isTold || caller.person === undefined) return run(call);
    const target = { ...(call.params as Record<string, string>), ...route.told?.(call.body) };
    const { accountId: organizationId, person } = caller;
    return activity.run({ organizationId, person, operation: route.id, target }, () => run(call));
  };
}

type Once = { route: Route; call: IncomingCall; bytes: Buffer; key: string; prove(): Promise<void> };

async function serveOnce(
  { route, call, bytes, key, prove }: Once,
  run: Run,
  deps: RouteHandlerDeps,
): Promise<Reply> {
  const keptAs = keptFor(route, call.caller);
  const target = `${JSON.stringify([call.params, call.query])}\n`;
  const said = route.sameCall === undefined ? bytes : Buffer.from(JSON.stringify(route.sameCall(call.body)));
  const bodyHash = hash("sha256", Buffer.concat([Buffer.from(target), said]), "buffer");
  const { answer, replayed } = await deps.idempotency.once(
    { ...keptAs, routeId: route.id, key, bodyHash },
    async () => {
      await prove();
      const { status = ownStatus(route), body, headers = {}, cookies } = await run(call);
      if (cookies !== undefined) throw new Error(`${route.id}: an answer with cookies cannot be kept`);
      return { status, body, headers };
    },
  );
  return jsonReply(answer.status, answer.body, {
    ...answer.headers,
    ...(replayed ? { "idempotent-replayed": "true" } : {}),
  });
}

type KeptFor = Pick<KeyedCall, "accountId" | "caller" | "secretFor">;

/**
 * Whose an answer is that is kept: the person's, or the connection's whose API key was sent; a secret is one
 * sign-in's.
 */
function keptFor({ id, showsSecret }: Route, caller: AnyCall["caller"]): KeptFor {
  if (caller === undefined || !("accountId" in caller)) {
    throw new Error(`${id}: only calls of an account can be idempotent`);
  }
  const kept = { accountId: caller.accountId, caller: nameOf(caller) };
  if (!showsSecret) return kept;
  if (!("familyId" in caller)) throw new Error(`${id}: secrets are shown only to people`);
  return { ...kept, secretFor: caller.familyId };
}

/** One of an account's callers: a connection, the account's own person, or a member. */
function nameOf(caller: SessionCaller | ApiKeyCaller | AccountCaller): string {
  if ("connectionId" in caller && caller.connectionId !== null) return caller.connectionId;
  const person = "person" in caller ? caller.person : undefined;
  return person === undefined || person.accountId === caller.accountId ? "person" : person.accountId;
}

function answerReply(route: Route, answer: Answer<unknown>, cookies: Cookies): Reply {
  const status = answer.status ?? ownStatus(route);
  const reply = isBare(route, status)
    ? { status, headers: answer.headers ?? {}, body: "" }
    : jsonReply(status, answer.body, answer.headers);
  return answer.cookies === undefined ? reply : { ...reply, cookies: answer.cookies.map(cookies.write) };
}

/** The status of what a route answers to a call that it does not refuse. */
function ownStatus({ answer }: Route): number {
  return answer.status;
}

/** Whether this answer of a route has no body. */
function isBare(route: Route, status: number): boolean {
  const other = route.otherAnswers?.[status];
  return other !== undefined && other.schema === undefined;
}

/**
 * The handler, checked against its declaration: the answer's form, and that a refusal's code is a declared
 * one.
 */
function checked(route: Route): Run {
  const declared = new Set<string>(routeErrors(route));
  return async (call) => {
    const answer = await route.handle(call).catch((error: unknown) => {
      if (!(error instanceof ApiError) || declared.has(error.code)) throw error;
      throw new Error(`${route.id} does not declare ${error.code}`);
    });
    const status = answer.status ?? ownStatus(route);
    const { schema = z.undefined() } = route.otherAnswers?.[status] ?? route.answer;
    const result = schema.safeParse(answer.body);
    if (!result.success) {
      throw new Error(`${route.id} does not answer as declared: ${result.error.message}`);
    }
    return answer;
  };
}
