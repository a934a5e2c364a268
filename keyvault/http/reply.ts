import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type ErrorCode, errorBody, errorCodes } from "../errors.ts";

/** A response. A stream is sent as `application/octet-stream`, everything else as JSON. */
export type Reply = { status: number; body: object; headers?: Readonly<Record<string, string>> };

/**
 * Returns an error response. If the request's body has not arrived completely, the connection then closes.
 */
export function errorReply(request: IncomingMessage, code: ErrorCode, message: string): Reply {
  const [status] = errorCodes[code];
  const headers = {
    ...(status === 503 && { "retry-after": "1" }),
    ...(!request.complete && { connection: "close" }),
  };
  return { status, body: errorBody(code, message), headers };
}

/**
 * Returns the raw HTTP response to bytes that are not a valid request. The caller must close the connection.
 */
export function malformedAnswer(): string {
  const [status, message] = errorCodes.invalid_request;
  const body = JSON.stringify(errorBody("invalid_request", message));
  const headers = {
    ...CONSTANT,
    ...JSON_TYPE,
    "content-length": Buffer.byteLength(body),
    connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Bad Request\r\n${lines.join("")}\r\n${body}`;
}

/**
 * Sends a response. If its body is a stream that fails, closes the connection and rejects with that error.
 */
export async function sendReply(response: ServerResponse, { status, body, headers }: Reply): Promise<void> {
  if (body instanceof Readable) {
    response.writeHead(status, { ...CONSTANT, "content-type": "application/octet-stream", ...headers });
    return pipeline(body, response);
  }
  const json = JSON.stringify(body);
  const length = String(Buffer.byteLength(json));
  response.writeHead(status, { ...CONSTANT, ...JSON_TYPE, "content-length": length, ...headers });
  response.end(json);
}

const CONSTANT = { "cache-control": "no-store" } as const;
const JSON_TYPE = { "content-type": "application/json; charset=utf-8" } as const;
