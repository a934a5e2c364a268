import type { ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import { type ApiError, errorBody } from "../errors.ts";

/** An answer, ready to send. Header names are in lower case. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  cookies?: string[];
  body: string;
  /** The rest of the body in pieces. There is no `Content-Length`, and a failing piece ends the response. */
  rest?: AsyncIterable<string>;
};

/** Returns a JSON answer. */
export function jsonReply(status: number, body: unknown, headers?: Record<string, string>): Reply {
  return {
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body: JSON.stringify(body),
  };
}

/** Returns the answer to a refused call (specification §7). */
export function errorReply(error: ApiError): Reply {
  return jsonReply(error.status, errorBody(error), error.headers);
}

/**
 * Sends an answer, with the `common` headers that it does not set itself.
 *
 * While the request is still arriving, writes the whole response but ends it only after `arrived`. If the
 * client asked to close the connection, an earlier end would close it while the client still sends.
 *
 * If the response has already begun, cuts it off, so that it cannot be taken for a complete one. Does nothing
 * if the client has disconnected.
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
 * Sends pieces as fast as the client reads them, with at most two of them in memory. If a piece fails, ends
 * the connection without the end of the response, so that the reader sees that it is incomplete.
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
  // The producer of the pieces logs its own failures. Here a failure only ends the response.
  pipeline(Readable.from(pieces()), response, () => {});
}

/**
 * Sends the answer to a request that is still arriving. Without `arrived`, ends the connection and reads
 * nothing more.
 */
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
 * Returns a body to send beside a request id. Node sends the headers together with a text body and encodes
 * both as UTF-8, which would change an id that is not ASCII. With a body of bytes, the headers stay
 * unchanged.
 */
export function bodyBeside(requestId: unknown, body: string): string | Buffer {
  return typeof requestId === "string" && /[\x80-\xff]/.test(requestId) ? Buffer.from(body) : body;
}

/**
 * Returns the headers of every answer. They forbid type sniffing, framing, caching and referrers, and make
 * browsers stay on https. A page replaces the content security policy with its own.
 */
export function securityHeaders(baseUrl: string): Record<string, string> {
  return {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...(baseUrl.startsWith("https:") ? { "strict-transport-security": "max-age=31536000" } : {}),
  };
}
