import type { ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import { type ApiError, errorBody } from "../errors.ts";

/** A response, ready to send. Header names are in lower case. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  cookies?: string[];
  body: string;
  /** The rest of the body. The response then has no `Content-Length`, and an error in a chunk aborts it. */
  rest?: AsyncIterable<string>;
};

/** Returns a reply with a JSON body. */
export function jsonReply(status: number, body: unknown, headers?: Record<string, string>): Reply {
  return {
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body: JSON.stringify(body),
  };
}

/** Returns the reply to a refused call (specification §7). */
export function errorReply(error: ApiError): Reply {
  return jsonReply(error.status, errorBody(error), error.headers);
}

/**
 * Sends a reply, with the `common` headers that the reply does not set itself.
 *
 * While the request is still arriving, writes the whole response but ends it only after `arrived` resolves.
 * Ending it earlier could close the connection while the client still sends.
 *
 * If the response has already begun, aborts it, so that nobody can take it for a complete response. Does
 * nothing if the client has disconnected.
 */
export function sendReply(
  response: ServerResponse,
  reply: Reply,
  common: Record<string, string>,
  arrived?: Promise<void>,
): void {
  if (response.destroyed || response.writableEnded) return;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const headers: Record<string, string | string[] | number> = { ...common, ...reply.headers };
  if (reply.rest === undefined) headers["content-length"] = Buffer.byteLength(reply.body);
  if (reply.cookies !== undefined) headers["set-cookie"] = reply.cookies;
  const body = bodyBeside(headers["x-request-id"], reply.body);
  response.writeHead(reply.status, headers);
  if (reply.rest !== undefined) {
    sendPieces(response, reply.body, reply.rest);
  } else if (arrived === undefined) {
    response.end(body);
  } else {
    if (body.length === 0) {
      response.flushHeaders();
    } else {
      response.write(body);
    }
    void arrived.then(() => response.end());
  }
}

/**
 * Sends the chunks, with at most two of them in memory. If a chunk fails, closes the connection, so that the
 * reader sees that the response is incomplete.
 */
function sendPieces(response: ServerResponse, body: string, rest: AsyncIterable<string>): void {
  if (response.req.method === "HEAD") {
    response.end();
    return;
  }
  async function* pieces() {
    yield body;
    yield* rest;
  }
  // The producer of the chunks logs its own failures. Here a failure only aborts the response.
  pipeline(Readable.from(pieces()), response, () => {});
}

/** Sends the reply to a request that is still arriving. Without `arrived`, closes the connection. */
export function sendEarly(
  response: ServerResponse,
  reply: Reply,
  common: Record<string, string>,
  arrived: Promise<void> | undefined,
): void {
  if (arrived !== undefined) {
    sendReply(response, reply, common, arrived);
  } else {
    sendReply(response, reply, { ...common, connection: "close" });
  }
}

/**
 * Returns a body that leaves a non-ASCII request id unchanged. Node encodes headers that it sends together
 * with a string body as UTF-8.
 */
export function bodyBeside(requestId: unknown, body: string): string | Buffer {
  return typeof requestId === "string" && /[\x80-\xff]/.test(requestId) ? Buffer.from(body) : body;
}

/** Returns the headers of every response. A page replaces this content security policy with its own. */
export function securityHeaders(baseUrl: string): Record<string, string> {
  return {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...(baseUrl.startsWith("https:") ? { "strict-transport-security": "max-age=31536000" } : {}),
  };
}
