import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { Powers } from "./authenticate.ts";
import type { Cookies } from "./cookies.ts";
import type { Observe, Settle } from "./deadline.ts";
import { type Exchange, HttpCall, type RequestReaders } from "./http_call.ts";
import type { Operation } from "./paths.ts";
import type { Reply } from "./replies.ts";

/** Pages that call operations. */
export type Site = {
  /** What their time and status are counted under. */
  id: string;
  serves(path: string): boolean;
  answer(exchange: Exchange): Promise<Reply>;
};

/** What pages are made with. */
export type SiteDeps = {
  inProcess: InProcess;
  /** Whether somebody with these powers may call an operation; one that there is none of throws. */
  isForRole(operationId: string, powers: Powers): boolean;
  /** Its deadline is shorter than the one of the exchange: there is time for a page that says so. */
  settle: Settle;
  cookies: Cookies;
  /** The bytes of a form, within the bounds of every body. */
  readBody(exchange: Exchange): Promise<Buffer>;
  baseUrl: string;
  names: Names;
};

/** What a call of an operation carries besides what its exchange says of the caller. */
export type OperationInput = {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  /** A JSON body. */
  body?: unknown;
  idempotencyKey?: string | undefined;
  /** The CSRF token that a form carried. */
  csrf?: string | undefined;
  /** The account that is acted for; without it the caller's own. */
  account?: string | undefined;
};

/** What an operation answered. Refusals are thrown, as `ApiError`. */
type OperationAnswer = {
  status: number;
  body: unknown;
  headers: Record<string, string>;
  /** `Set-Cookie` values that the caller's browser is to get. */
  cookies: readonly string[];
};

/**
 * Calls an operation in this process for the caller of an exchange: by its cookies, from its address, through
 * all that a call over HTTP goes through. It is counted, bounded in time and logged like one. An answer that
 * shows a secret is given once: a repeat under its idempotency key is `answer_not_kept` here.
 */
export type InProcess = (
  exchange: Exchange,
  operationId: string,
  input?: OperationInput,
) => Promise<OperationAnswer>;

/** Headers of the exchange that say who calls, and from where. An API key is not among them. */
const CARRIED = ["cookie", "user-agent", "x-forwarded-for", "traceparent"] as const;

/** Finds an operation by its id. Throws when there is none. */
type FindOperation = (operationId: string) => Operation;

/** Operations by their ids. */
export function createFindOperation(operations: readonly Operation[]): FindOperation {
  const byId = new Map(operations.map((operation) => [operation.route.id, operation]));
  return (operationId) => {
    const found = byId.get(operationId);
    if (found === undefined) throw new Error(`There is no operation ${operationId}`);
    return found;
  };
}

type InProcessDeps = {
  find: FindOperation;
  settle: Settle;
  observe: Observe;
  readers: RequestReaders;
};

/** The operations that are mounted, to be called from here. */
export function createInProcess({ find, settle, observe, readers }: InProcessDeps): InProcess {
  const nameOf = (name: string) => readers.names.headers(name)[0] ?? name;
  return async ({ request, response, id }, operationId, input = {}) => {
    const { route, run } = find(operationId);
    const message = messageOf(request, input, { method: route.method, nameOf });
    const call = new HttpCall(message, response, readers, id);
    call.route = route.id;
    call.params = input.params ?? {};
    const settled = settle(call, () => run({ state: call }));
    const status = await settled.then(
      (reply) => reply.status,
      (error) => error.status,
    );
    observe(operationId, status, performance.now() - call.startedAt);
    const reply = await settled;
    if (route.showsSecret === true && reply.headers["idempotent-replayed"] !== undefined) {
      throw new ApiError("answer_not_kept");
    }
    const body: unknown = reply.body === "" ? undefined : JSON.parse(reply.body);
    return { status: reply.status, body, headers: reply.headers, cookies: reply.cookies ?? [] };
  };
}

/** The request that a caller would have sent. */
function messageOf(
  request: IncomingMessage,
  { query = {}, body, idempotencyKey, csrf, account }: OperationInput,
  { method, nameOf }: { method: string; nameOf(name: string): string },
): IncomingMessage {
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const asked = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const headers = {
    ...Object.fromEntries(CARRIED.map((name) => [name, request.headers[name]])),
    [nameOf("x-service-csrf")]: csrf,
    [nameOf("x-service-account")]: account,
    "idempotency-key": idempotencyKey,
    ...(bytes && { "content-type": "application/json", "content-length": String(bytes.length) }),
  };
  const stream = Readable.from(bytes === undefined ? [] : [bytes]);
  return Object.assign(stream, {
    method,
    url: `/?${new URLSearchParams(asked)}`,
    headers,
    socket: request.socket,
  }) as unknown as IncomingMessage;
}
