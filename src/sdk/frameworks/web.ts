import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import type { Authority } from "../authority.ts";
import type { Guard } from "../create_guard.ts";
import {
  authorizeRequest,
  checkRoute,
  outcomeOfStatus,
  proofOf,
  type RequestView,
  type Route,
  refusalBody,
} from "../route.ts";
import { demand, demandKnown } from "../settings.ts";

const MAX_DEPTH = 64;
const JSON_TYPE = /^application\/([\w.-]+\+)?json[ \t]*(;|$)/i;
const BYTES_TYPE = /^application\/octet-stream[ \t]*(;|$)/i;

/** The protected code of a route. `rest` are the further arguments that the framework passes. */
export type WebHandler<Rest extends unknown[]> = (
  request: Request,
  authority: Authority,
  ...rest: Rest
) => Response | Promise<Response>;

const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Returns a handler of web-standard requests, for Hono, Next, Deno and Bun. It runs `handler` only after an
 * explicit `allow` decision, and responds with 403 or 503 otherwise. It reads the body of a request with a
 * proof, up to `maxBodyBytes` (1 MiB): use `authority.payload`, the frozen copy. JSON is parsed strictly, and
 * any other body is bytes. With `operation`, a body must be JSON or `application/octet-stream`.
 */
export function guardFetch<Rest extends unknown[] = []>(
  guard: Guard,
  route: Route<Request>,
  handler: WebHandler<Rest>,
  options: { maxBodyBytes?: number } = {},
): (request: Request, ...rest: Rest) => Promise<Response> {
  checkRoute(guard, route);
  demand(typeof handler === "function", "handler: must be a function");
  demandKnown("options", options, { maxBodyBytes: true });
  const { maxBodyBytes = MAX_BODY_BYTES } = options;
  const isLimit = Number.isInteger(maxBodyBytes) && maxBodyBytes >= 0;
  demand(isLimit, "maxBodyBytes: must be a whole number that is not negative");
  return async (request, ...rest) => {
    const isRequest = typeof request?.url === "string" && typeof request.headers?.get === "function";
    demand(isRequest, "request: must be a Request. In Hono, pass c.req.raw");
    const { pathname, search } = new URL(request.url);
    const headers = Object.fromEntries(request.headers);
    const message = { method: request.method, headers, httpVersionMajor: 1 };
    const view: RequestView = { message, target: `${pathname}${search}`, body: undefined };
    const proof = proofOf(guard, route, request, view);
    const body = proof === undefined ? {} : await receiveBody(request, maxBodyBytes);
    if (body instanceof Response) return body;
    const authorization = await authorizeRequest(guard, route, request, { ...view, ...body }, proof);
    if (!authorization.allowed) {
      const { refusal } = authorization;
      return answer(refusal.status, await refusalBody(guard, view, refusal));
    }
    const { authority } = authorization;
    try {
      const response = await handler(request, authority, ...rest);
      authority.report(outcomeOfStatus(response.status), `HTTP ${response.status}`);
      return response;
    } catch (error) {
      authority.report("failed", error instanceof Error ? error.name : undefined);
      throw error;
    }
  };
}

/** Returns the body, or the response to a body that cannot be read. */
async function receiveBody(
  request: Request,
  maxBytes: number,
): Promise<ReturnType<typeof readBody> | Response> {
  const isUnread = !request.bodyUsed && request.body?.locked !== true;
  demand(isUnread, "request: its body was read before. Read it from authority.payload, behind the guard");
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) return unreadable(413, "The body is too large");
    chunks.push(chunk);
  }
  try {
    return readBody(request.headers.get("content-type") ?? "", Buffer.concat(chunks));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return unreadable(400, "The body is not strictly one JSON document");
  }
}

function unreadable(status: number, message: string): Response {
  return answer(status, { error: { code: "invalid_request", message, status } });
}

function answer(status: number, body: object): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store" } });
}

/**
 * Reads a body by its content type. JSON is parsed strictly, and any other body is bytes. Throws
 * `ProtocolError` if a body of JSON is not strictly one document. `isOtherType`: the type is neither JSON nor
 * `application/octet-stream`, so no proof can be bound to the body. The Python guard has the same rules.
 */
export function readBody(
  contentType: string,
  bytes: Uint8Array,
): Required<Pick<RequestView, "body" | "isSent" | "isOtherType">> {
  if (bytes.length === 0) return { body: undefined, isSent: false, isOtherType: false };
  if (!JSON_TYPE.test(contentType)) {
    return { body: bytes, isSent: true, isOtherType: !BYTES_TYPE.test(contentType) };
  }
  const body = plainJson(parseJson(bytes, { bytes: bytes.length, depth: MAX_DEPTH }));
  return { body, isSent: true, isOtherType: false };
}
