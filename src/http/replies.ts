import type { ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import { type ApiError, errorBody } from "../errors.ts";

/** An answer, ready for the wire. Header names are in lower case. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  cookies?: string[];
  body: string;
  /** What comes after the body, piece by piece; it then has no length, and is cut off where one fails. */
  rest?: AsyncIterable<string>;
};

/** A JSON answer. */
export function jsonReply(status: number, body: unknown, headers?: Record<string, string>): Reply {
  return {
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body: JSON.stringify(body),
  };
}

/** The answer to a refused call (specification §7). */
export function errorReply(error: ApiError): Reply {
  return jsonReply(error.status, errorBody(error), error.headers);
}

/**
 * Sends an answer, with the `common` headers it does not set itself. While its request is still arriving, the
 * response is written whole and ended when `arrived` is: ending it earlier would close the connection of a
 * client that wants it closed, while that client still sends. A response that has begun is cut off instead,
 * so that it cannot be taken for a whole one. Does nothing when the client has gone.
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
 * Sends pieces as they come and as fast as they are read, holding no more than two of them. When one cannot
 * be made the connection ends without the end of the answer, so that its reader sees that it is not whole.
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
  // What fails is written down where it is made; here it ends the response.
  pipeline(Readable.from(pieces()), response, () => {});
}

/**
 * Sends the answer to a request that is still arriving; without `arrived`, nothing more of it is taken in:
 * the connection ends.
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
 * A body to send under a request id. Node sends headers together with a body that is text, and in the body's
 * UTF-8, which would change the bytes of an id that is not ASCII; with a body of bytes they stay unchanged.
 */
export function bodyBeside(requestId: unknown, body: string): string | Buffer {
  return typeof requestId === "string" && /[\x80-\xff]/.test(requestId) ? Buffer.from(body) : body;
}

/**
 * Headers of every answer: nothing is guessed, framed, cached or passed on to the next site; https stays
 * https. A page replaces the policy with one of its own.
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
