import type { IncomingHttpHeaders } from "node:http";
import type { Authority, Authorization } from "./authority.ts";
import type { Challenge } from "./challenges.ts";
import type { Guard } from "./create_guard.ts";
import { NO_AUTHORITY, type Refusal } from "./enforcement.ts";
import { shownRequest } from "./faults.ts";
import type { OperationInput } from "./operation.ts";
import type { ProofSource } from "./proof.ts";
import { type AuthorizeCall, demandScope } from "./question.ts";
import { demand, demandFunction, demandKnown, type Known } from "./settings.ts";

/**
 * Guard settings of a route. `Request` is the value that the framework passes to a handler: Express's
 * request, Koa's context, Fastify's request, or a web-standard request.
 */
export type Route<Request> = {
  /** The scope that the route requires. If a function returns `undefined`, the request is refused. */
  requiredScope: string | ((request: Request) => string | undefined);
  /** Returns the proof. By default, the proof is read from the header `X-Service-Proof`. */
  proof?: (request: Request) => ProofSource | undefined;
  /** Returns the input of the action, by default the parsed body. The frozen copy replaces the body. */
  payload?: (request: Request) => unknown;
  /**
   * If set, requires proofs that were made for this one action. Omitted members are read from the request:
   * the unchanged path and query, and the headers `X-Service-Invocation-ID` and `X-Service-Session-ID`. With
   * a `proof_ref`, the agent id is in `X-Service-Agent-ID`. The service compares constraints with the same
   * resource and path. `true`: the action is the request's method, as in `agent.fetch`. `false`: as without
   * the setting.
   */
  operation?: boolean | ((request: Request) => Pick<OperationInput, "action"> & Partial<OperationInput>);
  /** Returns facts about the request, as `AuthorizeCall.context`: with an operation, no resource and path. */
  context?: (request: Request) => AuthorizeCall["context"];
};

/** The parts of Node's request that the guard uses, for HTTP/1 and HTTP/2. */
export type Message = {
  method?: string | undefined;
  headers: IncomingHttpHeaders;
  httpVersionMajor: number;
  socket?: { remoteAddress?: string | undefined };
  stream?: { endAfterHeaders: boolean };
};

/** The parts of Node's response that the guard uses. */
export type AnyResponse = { statusCode: number; end(...args: never[]): unknown };

/** The parts of a request that every framework provides. */
export type RequestView = {
  message: Message;
  /** Path and query, unchanged. */
  target: string;
  /** The parsed body, or `undefined` if no parser ran. */
  body: unknown;
  /** Whether the request has a body. By default, the message's headers decide. */
  isSent?: boolean;
  /** Whether the body has a type to which no proof can be bound. */
  isOtherType?: boolean;
};

const authorities = new WeakMap<object, Authority>();

/**
 * Returns the authority of a guarded request, including its frozen payload. `request` is the value that the
 * framework passes to the handler. Throws TypeError if no guard has allowed the request, so code on a route
 * without a guard does not run.
 */
export function authorityOf(request: object): Authority {
  const authority = authorities.get(request);
  if (authority === undefined) throw new TypeError("no guard has allowed this request");
  return authority;
}

/** Keeps the authority of a request for {@link authorityOf}. */
export function keepAuthority(request: object, authority: Authority): void {
  authorities.set(request, authority);
}

const KNOWN: Known<Route<never>> = {
  ...{ requiredScope: true, proof: true, payload: true, operation: true, context: true },
};

/** Throws TypeError if a route has an unknown or invalid setting, or if `guard` is none. */
export function checkRoute(guard: Guard, route: Route<never>): void {
  demand(typeof Object(guard).authorize === "function", "guard: must be one of createGuard");
  demandKnown("route", route, KNOWN);
  const { requiredScope, proof, payload, operation, context } = route;
  if (typeof requiredScope !== "function") demandScope(requiredScope);
  const isOperation = ["undefined", "boolean", "function"].includes(typeof operation);
  demand(isOperation, "operation: must be true, or a function that returns { action, … }");
  for (const [name, given] of Object.entries({ proof, payload, context })) demandFunction(name, given);
}

/** Returns the proof of a request, or nothing. A guard that reads bodies looks for the proof first. */
export function proofOf<Request>(
  guard: Guard,
  route: Route<Request>,
  request: Request,
  view: RequestView,
): ProofSource | undefined {
  return (route.proof === undefined ? headerOf(guard, view, "proof") : route.proof(request)) || undefined;
}

/** Authorizes one request of a route, and stores the authority for {@link authorityOf}. */
export async function authorizeRequest<Request extends object>(
  guard: Guard,
  route: Route<Request>,
  request: Request,
  view: RequestView,
  proof: ProofSource | undefined = proofOf(guard, route, request, view),
): Promise<Authorization> {
  const requiredScope =
    typeof route.requiredScope === "function" ? route.requiredScope(request) : route.requiredScope;
  if (proof === undefined) return guard.authorize({ requiredScope, proof });
  const isSent = view.isSent ?? hasBody(view.message);
  const body = isSent ? view.body : undefined;
  const authorization = await guard.authorize({
    requiredScope,
    proof,
    payload: route.payload === undefined ? body : route.payload(request),
    unreadBody: route.payload === undefined && isSent && (body === undefined || view.isOtherType === true),
    operation: route.operation
      ? operationOf(guard, view, namedBy(route.operation, request, view))
      : undefined,
    context: route.context?.(request),
    described: headerOf(guard, view, "operation"),
    request: shownRequest(view.message.method, view.target),
  });
  if (authorization.allowed) authorities.set(request, authorization.authority);
  return authorization;
}

/** Returns whether the frozen copy must replace the parsed body. */
export function replacesBody(route: Route<never>, authority: Authority): boolean {
  return route.payload === undefined && authority.payload !== undefined;
}

/** The value of `X-Service-Challenge` with which a caller asks for a challenge in case of a refusal. */
const WANTED = "wanted";
const INVOCATION_ID = /^[\x21-\x7e]{1,256}$/;

/**
 * Returns a refusal's body, in the form of the service's own errors. It repeats the request's invocation id,
 * so that an agent does not mistake the relayed refusal of another call for a refusal of its own. If the
 * request has shown no authority and asks for a challenge, the body contains a challenge of the guard's own
 * connection. If an approval could resolve a denial, the body contains the id with which the agent can ask.
 * It never names the verifier or the service: an agent takes these names from its own settings.
 */
export async function refusalBody(
  guard: Guard,
  view: RequestView,
  { status, code, message, evaluationId }: Refusal,
): Promise<{ error: Refusal; invocation_id?: string; evaluation_id?: string; challenge?: Challenge }> {
  const error = { code, message, status };
  const isAsked = code === NO_AUTHORITY.code && headerOf(guard, view, "challenge") === WANTED;
  const challenge = isAsked ? await guard.challenge(view.message.socket?.remoteAddress) : undefined;
  const invocation_id = headerOf(guard, view, "invocation-id");
  const isId = invocation_id !== undefined && INVOCATION_ID.test(invocation_id);
  return {
    error,
    ...(isId && { invocation_id }),
    ...(evaluationId !== undefined && { evaluation_id: evaluationId }),
    ...(challenge && { challenge }),
  };
}

/** Returns the outcome that the status of a completed response implies. */
export function outcomeOfStatus(status: number): "executed" | "refused_by_receiver" | "failed" {
  if (status >= 500) return "failed";
  return status >= 400 ? "refused_by_receiver" : "executed";
}

/**
 * Reports the outcome when the handler ends its response, even if the client has disconnected. If the handler
 * never ends the response, the outcome is unknown and not reported.
 */
export function reportAtEnd(response: AnyResponse, authority: Authority): void {
  const { end } = response;
  response.end = function reportingEnd(this: AnyResponse, ...args: never[]) {
    authority.report(outcomeOfStatus(this.statusCode), `HTTP ${this.statusCode}`);
    return end.apply(this, args);
  };
}

function namedBy<Request>(
  operation: Exclude<Route<Request>["operation"], false | undefined>,
  request: Request,
  { message }: RequestView,
) {
  return operation === true ? { action: message.method ?? "" } : operation(request);
}

function operationOf(
  guard: Guard,
  view: RequestView,
  given: Pick<OperationInput, "action"> & Partial<OperationInput>,
): OperationInput {
  return {
    ...given,
    invocationId: given.invocationId ?? headerOf(guard, view, "invocation-id") ?? "",
    sessionId: given.sessionId ?? headerOf(guard, view, "session-id"),
    agentId: given.agentId ?? headerOf(guard, view, "agent-id"),
    requestedPath: given.requestedPath ?? view.target,
  };
}

function headerOf(guard: Guard, { message }: RequestView, name: string): string | undefined {
  const value = message.headers[guard.header(name)];
  return typeof value === "string" ? value : undefined;
}

/** Returns whether a request has a body. In HTTP/2, a body may have no announced length. */
function hasBody({ headers, httpVersionMajor, stream }: Message): boolean {
  if (httpVersionMajor > 1) return headers["content-length"] !== "0" && stream?.endAfterHeaders !== true;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
