import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { Powers } from "./authenticate.ts";
import type { Cookies } from "./cookies.ts";
import type { Observe, RunCall } from "./deadline.ts";
import { type Exchange, HttpCall, type RequestReaders } from "./http_call.ts";
import type { Operation } from "./paths.ts";
import type { Reply } from "./replies.ts";

/** A set of pages that call operations. */
export type Site = {
  /** The metrics label for the site's requests. */
  id: string;
  serves(path: string): boolean;
  answer(exchange: Exchange): Promise<Reply>;
};

/** Functions that pages use to call operations. */
export type SiteDeps = {
  inProcess: InProcess;
  /** Returns whether a person with these powers may call an operation. Throws for an unknown operation. */
  isForRole(operationId: string, powers: Powers): boolean;
  /** Has an earlier deadline than the whole request, so that time remains to send an error page. */
  runCall: RunCall;
  cookies: Cookies;
  /** Returns the bytes of a submitted form, within the limits of all request bodies. */
  readBody(exchange: Exchange): Promise<Buffer>;
  baseUrl: string;
  names: Names;
};

/** The input of an operation, apart from the caller, whom the exchange identifies. */
export type OperationInput = {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  /** A JSON body. */
  body?: unknown;
  idempotencyKey?: string | undefined;
  csrf?: string | undefined;
  /** The account to act for. Defaults to the caller's own account. */
  account?: string | undefined;
};

/** The answer of an operation. Refusals are thrown as `ApiError`. */
type OperationAnswer = {
  status: number;
  body: unknown;
  headers: Record<string, string>;
  /** `Set-Cookie` values for the caller's browser. */
  cookies: readonly string[];
};

/**
 * Calls an operation in this process, with the cookies and address of the exchange's caller. The call passes
 * the same checks and limits as an HTTP call. An answer with a secret is returned only once: a repetition
 * with its idempotency key throws `answer_not_kept`.
 */
export type InProcess = (
  exchange: Exchange,
  operationId: string,
  input?: OperationInput,
) => Promise<OperationAnswer>;

/** Headers of the exchange that identify the caller and their address. API keys are not included. */
const CARRIED = ["cookie", "user-agent", "x-forwarded-for", "traceparent"] as const;

/** Returns an operation by its id. Throws for an unknown operation. */
type FindOperation = (operationId: string) => Operation;

/** Creates a function that finds operations by their ids. */
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
  runCall: RunCall;
  observe: Observe;
  readers: RequestReaders;
};

/** Creates a function that calls these operations in this process. */
export function createInProcess({ find, runCall, observe, readers }: InProcessDeps): InProcess {
  const nameOf = (name: string) => readers.names.headers(name)[0] ?? name;
  return async ({ request, response, id }, operationId, input = {}) => {
    const { route, run } = find(operationId);
    const message = messageOf(request, input, { method: route.method, nameOf });
    const call = new HttpCall(message, response, readers, id);
    call.route = route.id;
    call.params = input.params ?? {};
    const running = runCall(call, () => run({ state: call }));
    const status = await running.then(
      (reply) => reply.status,
      (error) => error.status,
    );
    observe(operationId, status, performance.now() - call.startedAt);
    const reply = await running;
    if (route.showsSecret === true && reply.headers["idempotent-replayed"] !== undefined) {
      throw new ApiError("answer_not_kept");
    }
    const body: unknown = reply.body === "" ? undefined : JSON.parse(reply.body);
    return { status: reply.status, body, headers: reply.headers, cookies: reply.cookies ?? [] };
  };
}

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
