import type { IncomingMessage, ServerResponse } from "node:http";
import type { LiveSession } from "../accounts/sessions/sessions.ts";
import type { Names } from "../input/names.ts";
import type { Call, CookieName, Route } from "../route.ts";
import type { ClientAddress } from "./client_address.ts";
import type { Cookies } from "./cookies.ts";
import type { Reply } from "./replies.ts";
import { type RequestId, readHeader, requestIdOf } from "./request_head.ts";

/** One request, its response, and the id that the caller and the log know it by. */
export type Exchange = { request: IncomingMessage; response: ServerResponse; id: RequestId };

/** Reads what a request says of its client. */
export type RequestReaders = { names: Names; cookies: Cookies; clientAddress: ClientAddress };

/** The `ctx` of a middleware: Koa's, or a plain object on a direct path and for a call in this process. */
export type CallContext = { state: HttpCall };

/**
 * A Koa middleware that returns the reply of the next one, or another. It throws refusals as `ApiError`.
 * Koa's context is written to in one place only, from the reply that arrives there.
 */
export type Middleware = (ctx: CallContext, next: () => Promise<Reply>) => Promise<Reply>;

/** Runs middleware in order, without Koa. The last one must not call `next`. */
export function inOrder(middleware: readonly Middleware[]): (ctx: CallContext) => Promise<Reply> {
  const end = (): Promise<Reply> => Promise.reject(new Error("No middleware gave a reply"));
  return middleware.reduceRight<(ctx: CallContext) => Promise<Reply>>(
    (next, run) => (ctx) => run(ctx, () => next(ctx)),
    end,
  );
}

/** A request on its way through the middleware. Each of them fills in what it found out. */
export class HttpCall implements Exchange, Call<Route["access"], unknown, unknown, unknown> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly id: RequestId;
  /** `performance.now()` at the request's arrival. */
  readonly startedAt = performance.now();
  /** What time, status and faults are recorded under: the id of an operation or a site, or `none`. */
  route = "none";
  params: unknown = {};
  query: unknown;
  body: unknown;
  /** The body as it arrived. */
  bytes: Buffer = EMPTY;
  caller: Call<Route["access"], unknown, unknown, unknown>["caller"];
  /** The session of a caller who is a person. */
  session: LiveSession | undefined;
  /** `performance.now()` when the caller was last looked up. */
  provenAt = Number.NEGATIVE_INFINITY;
  /** The `Idempotency-Key` of an operation that takes one. */
  idempotencyKey: string | undefined;
  /** Headers that say what is left of the operation's rate, once the call was counted. */
  rateHeaders: Record<string, string> | undefined;
  /** What the organization's activity shows of the answer. */
  told: Record<string, string> | undefined;
  readonly header: (name: string) => string | undefined;
  readonly cookie: (name: CookieName) => string | undefined;
  readonly #readers: RequestReaders;

  constructor(request: IncomingMessage, response: ServerResponse, readers: RequestReaders, id?: RequestId) {
    this.request = request;
    this.response = response;
    this.id = id ?? requestIdOf(request.headers["x-request-id"]);
    this.#readers = readers;
    // The engine expects a function that is written where it is assigned to live long. It would keep it, with
    // the call in its scope, until the heap is collected as a whole.
    const header = (name: string) => readHeader(request, readers.names.headers(name));
    const cookie = (name: CookieName) => readers.cookies.read(request.headers.cookie, name);
    this.header = header;
    this.cookie = cookie;
  }

  get requestId(): string {
    return this.id.logged;
  }

  get ip(): string {
    return this.#readers.clientAddress(this.request.socket.remoteAddress, this.header("x-forwarded-for"));
  }
}

const EMPTY = Buffer.alloc(0);
