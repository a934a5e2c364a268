import type { IncomingMessage, ServerResponse } from "node:http";
import type { LiveSession } from "../accounts/sessions/sessions.ts";
import type { Names } from "../input/names.ts";
import type { Call, CookieName, Route } from "../route.ts";
import type { ClientAddress } from "./client_address.ts";
import type { Cookies } from "./cookies.ts";
import type { Reply } from "./replies.ts";
import { type RequestId, readHeader, requestIdOf } from "./request_head.ts";

/** One request, its response, and the id that the caller and the log receive. */
export type Exchange = { request: IncomingMessage; response: ServerResponse; id: RequestId };

/** Functions and names that read a client's data from a request. */
export type RequestReaders = { names: Names; cookies: Cookies; clientAddress: ClientAddress };

/** A middleware's `ctx`: Koa's context, or a plain object for a direct path or for a call in this process. */
export type CallContext = { state: HttpCall };

/** Returns a reply, or throws a refusal as `ApiError`. The first middleware writes to Koa's context. */
export type Middleware = (ctx: CallContext, next: () => Promise<Reply>) => Promise<Reply>;

/** Runs middleware in order, without Koa. The last one must not call `next`. */
export function inOrder(middleware: readonly Middleware[]): (ctx: CallContext) => Promise<Reply> {
  const end = (): Promise<Reply> => Promise.reject(new Error("No middleware returned a reply"));
  return middleware.reduceRight<(ctx: CallContext) => Promise<Reply>>(
    (next, run) => (ctx) => run(ctx, () => next(ctx)),
    end,
  );
}

/** A request on its way through the middleware. Each middleware stores its result here. */
export class HttpCall implements Exchange, Call<Route["access"], unknown, unknown, unknown> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly id: RequestId;
  /** `performance.now()` when the request arrived. */
  readonly startedAt = performance.now();
  /** The label for metrics and logs: the id of an operation or a site, or `none`. */
  route = "none";
  params: unknown = {};
  query: unknown;
  body: unknown;
  /** The body's bytes as received. */
  bytes: Buffer = EMPTY;
  caller: Call<Route["access"], unknown, unknown, unknown>["caller"];
  session: LiveSession | undefined;
  /** `performance.now()` when the caller was last checked. */
  provenAt = Number.NEGATIVE_INFINITY;
  idempotencyKey: string | undefined;
  /** Headers with the remaining calls of the operation's rate limit. Set once the call was counted. */
  rateHeaders: Record<string, string> | undefined;
  /** Values from the answer for the account's activity list. */
  activityDetails: Record<string, string> | undefined;
  readonly header: (name: string) => string | undefined;
  readonly cookie: (name: CookieName) => string | undefined;
  readonly formerCookie: (name: CookieName) => string | undefined;
  readonly #readers: RequestReaders;

  constructor(request: IncomingMessage, response: ServerResponse, readers: RequestReaders, id?: RequestId) {
    this.request = request;
    this.response = response;
    this.id = id ?? requestIdOf(request.headers["x-request-id"]);
    this.#readers = readers;
    // Create the functions before the assignment. V8 would keep a function literal in the assignment, and the
    // call in the function's scope, in memory until a full garbage collection.
    const header = (name: string) => readHeader(request, readers.names.headers(name));
    const cookie = (name: CookieName) => readers.cookies.read(request.headers.cookie, name);
    const formerCookie = (name: CookieName) => readers.cookies.readFormer(request.headers.cookie, name);
    this.header = header;
    this.cookie = cookie;
    this.formerCookie = formerCookie;
  }

  get requestId(): string {
    return this.id.logged;
  }

  get ip(): string {
    return this.#readers.clientAddress(this.request.socket.remoteAddress, this.header("x-forwarded-for"));
  }
}

const EMPTY = Buffer.alloc(0);
