import type { IncomingHttpHeaders } from "node:http";
import type { Authority, Authorization } from "./authority.ts";
import type { Guard } from "./create_guard.ts";
import type { Refusal } from "./enforcement.ts";
import type { OperationInput } from "./operation.ts";
import type { ProofSource } from "./proof.ts";
import { type AuthorizeCall, demandScope } from "./question.ts";

/**
 * How a route is guarded. `Request` is what the framework gives a handler: Express's request, Koa's context,
 * Fastify's request.
 */
export type Route<Request> = {
  /**
   * The scope that the route demands; anything else is a TypeError when the route is made. A function that
   * gives nothing refuses the request.
   */
  requiredScope: string | ((request: Request) => string | undefined);
  /** Where the proof is. The header `X-Service-Proof` when left out. */
  proof?: (request: Request) => ProofSource | undefined;
  /** What the route works on. The parsed body when left out, which the frozen copy then replaces. */
  payload?: (request: Request) => unknown;
  /**
   * Demands proofs that were made for this one action. Omitted members are taken from the request: the path
   * with its query as it arrived, and the headers `X-Service-Invocation-ID`, `X-Service-Session-ID` and,
   * beside a `proof_ref`, `X-Service-Agent-ID`.
   */
  operation?: (request: Request) => Pick<OperationInput, "action"> & Partial<OperationInput>;
  /** What the constraints of certificates are evaluated against. */
  context?: (request: Request) => AuthorizeCall["context"];
};

/** What the guard needs of a request as Node has it, of HTTP/1 or HTTP/2. */
export type Message = {
  headers: IncomingHttpHeaders;
  httpVersionMajor: number;
  stream?: { endAfterHeaders: boolean };
};

/** What the guard needs of a response as Node has it. */
export type AnyResponse = { statusCode: number; end(...args: never[]): unknown };

/** A request as every framework has it. */
export type RequestView = {
  message: Message;
  /** Path and query as they arrived. */
  target: string;
  /** The parsed body, `undefined` when nothing has parsed one. */
  body: unknown;
};

const authorities = new WeakMap<object, Authority>();

/**
 * The authority that a guarded request runs under, its frozen payload included. Takes what the framework
 * gives the handler: Express's request, Koa's context, Fastify's request. Throws TypeError when no guard has
 * allowed it, so that code behind a forgotten guard does not run.
 */
export function authorityOf(request: object): Authority {
  const authority = authorities.get(request);
  if (authority === undefined) throw new TypeError("no guard has allowed this request");
  return authority;
}

/** Throws TypeError for a route that demands something that is not a scope. */
export function checkRoute({ requiredScope }: Route<never>): void {
  if (typeof requiredScope === "string" && requiredScope !== "") demandScope(requiredScope);
}

/** Authorizes one request of a route; remembers the authority for {@link authorityOf}. */
export async function authorizeRequest<Request extends object>(
  guard: Guard,
  route: Route<Request>,
  request: Request,
  view: RequestView,
): Promise<Authorization> {
  const { requiredScope } = route;
  const isSent = hasBody(view.message);
  const body = isSent ? view.body : undefined;
  const authorization = await guard.authorize({
    requiredScope: typeof requiredScope === "function" ? requiredScope(request) : requiredScope,
    proof: route.proof === undefined ? headerOf(guard, view, "proof") : route.proof(request),
    payload: route.payload === undefined ? body : route.payload(request),
    unreadBody: route.payload === undefined && isSent && body === undefined,
    operation: route.operation && operationOf(guard, view, route.operation(request)),
    context: route.context?.(request),
  });
  if (authorization.allowed) authorities.set(request, authorization.authority);
  return authorization;
}

/** Whether the frozen copy is to replace the parsed body. */
export function replacesBody(route: Route<never>, authority: Authority): boolean {
  return route.payload === undefined && authority.payload !== undefined;
}

/** The body of a refusal, shaped as the service's own errors are. */
export function refusalBody({ status, code, message }: Refusal): { error: Refusal } {
  return { error: { code, message, status } };
}

/** The outcome that a finished answer means. */
export function outcomeOfStatus(status: number): "executed" | "refused_by_receiver" | "failed" {
  if (status >= 500) return "failed";
  return status >= 400 ? "refused_by_receiver" : "executed";
}

/**
 * Reports the outcome when the handler ends its answer, whether or not the client is still there to read it.
 * Nothing is reported for an answer that is never ended: its outcome is not known.
 */
export function reportAtEnd(response: AnyResponse, authority: Authority): void {
  const { end } = response;
  response.end = function reportingEnd(this: AnyResponse, ...args: never[]) {
    authority.report(outcomeOfStatus(this.statusCode), `HTTP ${this.statusCode}`);
    return end.apply(this, args);
  };
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

/**
 * HTTP/1 announces a body in its headers; HTTP/2 announces that there is none, and need not give the length
 * of one.
 */
function hasBody({ headers, httpVersionMajor, stream }: Message): boolean {
  if (httpVersionMajor > 1) return headers["content-length"] !== "0" && stream?.endAfterHeaders !== true;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
