import { hash } from "node:crypto";
import { type ZodType, z } from "zod";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import { refuseLarge, validate } from "../input/validate.ts";
import type { Activity } from "../organizations/activity.ts";
import type { ApiKeyRates } from "../rates/api_key_rates.ts";
import type { ChangeRates } from "../rates/change_rates.ts";
import type { AccountCaller, Answer, ApiKeyCaller, Call, Route, SessionCaller } from "../route.ts";
import { inTrace } from "../trace_context.ts";
import { type Check, challengesOf } from "./authenticate.ts";
import { declaresJson, parseBody, type ReadBody, requireJson } from "./body.ts";
import type { Cookies } from "./cookies.ts";
import type { HttpCall, Middleware } from "./http_call.ts";
import { type Idempotency, idempotencyKey, type KeyedCall } from "./idempotency.ts";
import { routeErrors } from "./openapi/route_errors.ts";
import { jsonReply, type Reply } from "./replies.ts";
import { readQuery } from "./request_head.ts";

/** Milliseconds for which the result of the caller's checks remains valid. */
const PROVEN_MS = 250;

/** Runs the call within the trace that the request's `traceparent` header names. */
export const traced: Middleware = ({ state: call }, next) => inTrace(call.request.headers.traceparent, next);

/** Adds rate-limit headers to replies, and `WWW-Authenticate` to each 401. */
export function rateAndChallengeHeaders(route: Route, names: Names, cookies: Cookies): Middleware {
  const challenges = challengesOf(route, names, cookies);
  return async ({ state: call }, next) => {
    const reply = await next().catch((error: unknown) => Promise.reject(challenged(error, challenges)));
    if (call.rateHeaders !== undefined) Object.assign(reply.headers, call.rateHeaders);
    return reply;
  };
}

function challenged(error: unknown, challenges: string | undefined): unknown {
  if (challenges === undefined || !(error instanceof ApiError) || error.status !== 401) return error;
  return withHeaders(error, { "www-authenticate": challenges });
}

function withHeaders(error: unknown, headers: Record<string, string>): unknown {
  if (!(error instanceof ApiError)) return error;
  return new ApiError(error.code, error.message, { ...error.headers, ...headers });
}

/**
 * Counts a call that changes something for its sign-in or its connection, before the body is read. The limit
 * of a sign-in cannot be used up by another sign-in of the same person, such as a thief's.
 */
export function changesOf(route: Route, changeRates: ChangeRates): Check | undefined {
  const { id, method, access, ends = method === "DELETE", reads = method === "GET" } = route;
  if (reads || (access !== "session" && access !== "account")) return undefined;
  return ({ session, caller }) => {
    const connectionId = caller !== undefined && "connectionId" in caller ? caller.connectionId : null;
    const counted = session?.familyId ?? connectionId;
    if (counted === null) throw new Error(`${id}: a change needs a session or an API key`);
    changeRates.take(counted, ends ? "ends" : "changes");
  };
}

/** Returns a middleware that runs a check, or `undefined` without a check. */
export function passes(check: Check | undefined): Middleware | undefined {
  if (check === undefined) return undefined;
  return async ({ state: call }, next) => {
    await check(call);
    return next();
  };
}

/**
 * Repeats the checks if the last one is too old, because a body may arrive slowly, and a call may wait for
 * its idempotency key. Refuses callers who were removed, signed out or lost a role in the meantime.
 */
export function provenLately(all: readonly (Check | undefined)[]): Check | undefined {
  const checks = all.filter((check) => check !== undefined);
  if (checks.length === 0) return undefined;
  return async (call) => {
    if (performance.now() - call.provenAt < PROVEN_MS) return;
    for (const check of checks) await check(call);
  };
}

const KEY_IGNORED = { "idempotency-key-ignored": "true" };

/**
 * Ignores the `Idempotency-Key` header of an operation that does not use it, and says so in a header of every
 * reply and refusal. A caller that relies on its key must learn that a repetition runs again.
 */
export function ignoredKey({ idempotent }: Route): Middleware | undefined {
  if (idempotent !== undefined) return undefined;
  return async ({ state: call }, next) => {
    if (call.header("idempotency-key") === undefined) return next();
    const reply = await next().catch((error: unknown) => Promise.reject(withHeaders(error, KEY_IGNORED)));
    Object.assign(reply.headers, KEY_IGNORED);
    return reply;
  };
}

/** Reads the `Idempotency-Key` header of an operation that uses it. */
export function keyOf({ idempotent }: Route): Check | undefined {
  if (idempotent !== true) return undefined;
  return (call) => {
    const key = call.header("idempotency-key");
    if (key !== undefined) call.idempotencyKey = validate(idempotencyKey, key, "idempotency-key");
  };
}

/** Reads the whole body. */
export function body(readBody: ReadBody): Check {
  return async (call) => {
    call.bytes = await readBody(call.request, () => call.ip);
  };
}

/** Generated clients send `null` where a call needs no body. Such a body counts as absent. */
function orAbsent(schema: ZodType, body: unknown): unknown {
  return body === null && schema.safeParse(undefined).success ? undefined : body;
}

/**
 * Validates parameters, query and body. A path parameter that is not formed like an id throws `not_found`,
 * like any unknown id. A route that takes no body ignores a body, unless the body is declared as JSON and is
 * not valid JSON.
 */
export function inputOf(route: Route): Check {
  return (call) => {
    const { request, bytes } = call;
    call.params = readParams(route.params, call.params as Record<string, string>);
    if (route.query !== undefined) {
      call.query = validate(route.query, readQuery(request.url ?? ""), "query");
    }
    if (route.bodyForm === "form") {
      call.body = bytes;
      return;
    }
    if (route.bodyForm === "raw" || route.body !== undefined) requireJson(request, bytes);
    if (route.bodyForm === "raw") {
      call.body = bytes;
    } else if (route.body !== undefined) {
      call.body = validate(route.body, orAbsent(route.body, parseBody(bytes, "mark")), "body");
      refuseLarge(call.body, "body");
    } else if (declaresJson(request)) parseBody(bytes, "mark");
  };
}

/** Hides all other agents from the key of one agent, so that they do not exist for it. */
export const ownAgent: Check = ({ caller, params }) => {
  const agentId = caller !== undefined && "agentId" in caller ? caller.agentId : null;
  const { agent_id: named = agentId } = params as { agent_id?: string };
  if (typeof agentId === "string" && named !== agentId) throw new ApiError("not_found");
};

function readParams(schema: ZodType | undefined, params: Record<string, string>): unknown {
  const result = schema === undefined ? { success: true, data: params } : schema.safeParse(params);
  if (!result.success) throw new ApiError("not_found");
  return result.data;
}

/** Runs a call with an `Idempotency-Key` once. Repetitions receive the first reply. */
export function once(
  route: Route,
  idempotency: Idempotency,
  prove: Check | undefined,
): Middleware | undefined {
  if (route.idempotent !== true) return undefined;
  return async ({ state: call }, next) => {
    if (call.idempotencyKey === undefined) return next();
    const { answer, replayed } = await idempotency.once(
      keyedCall(route, call, call.idempotencyKey),
      async () => {
        await prove?.(call);
        const { status, body, headers, cookies } = await next();
        if (cookies !== undefined) throw new Error(`${route.id}: an answer with cookies cannot be kept`);
        return { status, body: body === "" ? undefined : JSON.parse(body), headers };
      },
    );
    const marked = replayed ? { "idempotent-replayed": "true" } : {};
    return jsonReply(answer.status, answer.body, { ...answer.headers, ...marked });
  };
}

function keyedCall(route: Route, call: HttpCall, key: string): KeyedCall {
  const target = `${JSON.stringify([call.params, call.query])}\n`;
  const bodyHash = hash("sha256", Buffer.concat([Buffer.from(target), call.bytes]), "buffer");
  return { ...keptFor(route, call), routeId: route.id, key, bodyHash };
}

/**
 * Returns the caller for whom an answer is kept. An answer with a secret is kept for one sign-in only, or for
 * the full keys of one connection.
 */
function keptFor(
  { id, showsSecret }: Route,
  { caller, session }: HttpCall,
): Pick<KeyedCall, "accountId" | "caller" | "secretFor"> {
  if (caller === undefined || !("accountId" in caller)) {
    throw new Error(`${id}: only an operation that belongs to an account can accept an idempotency key`);
  }
  const kept = { accountId: caller.accountId, caller: nameOf(caller) };
  if (!showsSecret) return kept;
  const secretFor = session?.familyId ?? ("connectionId" in caller ? caller.connectionId : null);
  if (secretFor === null) throw new Error(`${id}: an answer with a secret needs a sign-in or an API key`);
  return { ...kept, secretFor };
}

/** Returns a connection's id, `person` for the account's own person, or a member's account id. */
function nameOf(caller: SessionCaller | ApiKeyCaller | AccountCaller): string {
  if ("connectionId" in caller && caller.connectionId !== null) return caller.connectionId;
  const person = "person" in caller ? caller.person : undefined;
  return person === undefined || person.accountId === caller.accountId ? "person" : person.accountId;
}

/** Records a person's call that changes something for an account. */
export function activityOf(route: Route, activity: Activity): Middleware | undefined {
  const isOf = route.access === "session" || route.access === "account";
  const isOwn = typeof route.roles === "string" && route.recorded !== true;
  if (!isOf || route.method === "GET" || isOwn) return undefined;
  return async ({ state: call }, next) => {
    const { caller } = call;
    if (caller === undefined || !("person" in caller) || caller.person === undefined) return next();
    const target = { ...idsOf(call.params), ...route.activityDetails?.(call.body) };
    const { accountId, person, organization } = caller;
    // A person who has left the organization of their own account acts only for themselves.
    if (person.role === null) return next();
    const act = { accountId, person, operation: route.id, target, keepsAll: organization === true };
    const { reply } = await activity.run(act, async () => {
      const reply = await next();
      return { reply, ...(call.activityDetails && { activityDetails: call.activityDetails }) };
    });
    return reply;
  };
}

/** Counts a call before it runs. A call that fails is not counted if the limit counts only successes. */
export function rateOf({ id, rate }: Route, rates: ApiKeyRates): Middleware | undefined {
  if (rate === undefined) return undefined;
  return async ({ state: call }, next) => {
    const { caller } = call;
    if (caller === undefined || !("verifierId" in caller)) throw new Error(`${id}: a rate needs an API key`);
    return rates.within(rate, caller, (headers) => {
      call.rateHeaders = headers;
      return next();
    });
  };
}

/** Runs the handler. With `checkAnswers`, an undeclared answer or refusal becomes an internal error. */
export function handler(route: Route, cookies: Cookies, checkAnswers: boolean): Middleware {
  const handle = checkAnswers ? withDeclaredAnswers(route) : route.handle.bind(route);
  return async ({ state: call }) => {
    const answer = await handle(call);
    call.activityDetails = answer.activityDetails;
    return answerReply(route, answer, cookies);
  };
}

function answerReply(route: Route, answer: Answer<unknown>, cookies: Cookies): Reply {
  const status = answer.status ?? route.answer.status;
  const reply =
    answer.body === undefined || isBare(route, status)
      ? { status, headers: { ...answer.headers }, body: "" }
      : jsonReply(status, answer.body, answer.headers);
  return answer.cookies === undefined ? reply : { ...reply, cookies: answer.cookies.flatMap(cookies.write) };
}

function isBare(route: Route, status: number): boolean {
  const other = route.otherAnswers?.[status];
  return other !== undefined && other.schema === undefined;
}

type AnyCall = Call<Route["access"], unknown, unknown, unknown>;

function withDeclaredAnswers(route: Route): (call: AnyCall) => Promise<Answer<unknown>> {
  const declared = new Set<string>(routeErrors(route));
  return async (call) => {
    const answer = await route.handle(call).catch((error: unknown) => {
      if (!(error instanceof ApiError) || declared.has(error.code)) throw error;
      throw new Error(`${route.id} does not declare the error code ${error.code}`);
    });
    const { schema = z.undefined() } =
      route.otherAnswers?.[answer.status ?? route.answer.status] ?? route.answer;
    const result = schema.safeParse(answer.body);
    if (!result.success) {
      throw new Error(
        `${route.id} returned an answer that its schema does not allow: ${result.error.message}`,
      );
    }
    return answer;
  };
}

const MOST_OF_AN_ID = 200;

/** Returns the parameters that are ids. A longer one is a whole signed request. */
function idsOf(params: unknown): Record<string, string> {
  const all = Object.entries((params ?? {}) as Record<string, string>);
  return Object.fromEntries(all.filter(([, value]) => value.length <= MOST_OF_AN_ID));
}
