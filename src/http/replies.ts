import type { ServerResponse } from "node:http";
import { type ApiError, errorBody } from "../errors.ts";

/** An answer, ready for the wire. Header names are in lower case. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  cookies?: string[];
  body: string;
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
 * Sends an answer, with the `common` headers it does not set itself. A response that has begun is cut off instead, so
 * that it cannot be taken for a whole one. Does nothing when the client has gone.
 */
export function sendReply(response: ServerResponse, reply: Reply, common: Record<string, string>): void {
  if (response.destroyed || response.writableEnded) return;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const headers: Record<string, string | string[] | number> = { ...common, ...reply.headers };
  headers["content-length"] = Buffer.byteLength(reply.body);
  if (reply.cookies !== undefined) headers["set-cookie"] = reply.cookies;
  response.writeHead(reply.status, headers).end(reply.body);
}
