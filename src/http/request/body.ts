import type { IncomingMessage } from "node:http";
import getRawBody, { type RawBodyError } from "raw-body";
import { ApiError } from "../../errors.ts";
import { refuseNul } from "../../input/validate.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { type JsonValue, parseJson, plainJson } from "../../protocol/encoding/json.ts";

/** Bytes a request's body may have. */
export const MAX_BODY_BYTES = 262_144;
/** How many objects and arrays may be nested in a JSON body. */
const MAX_BODY_DEPTH = 32;

const EMPTY = Buffer.alloc(0);
const JSON_TYPE = /^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i;

/** Whether a request announces a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": transfer } = headers;
  return transfer !== undefined || (length !== undefined && length !== "0");
}

/**
 * The bytes of a request's body; none when it has none. Throws `invalid_request` as soon as the length that
 * is announced, or what has arrived, is over `MAX_BODY_BYTES`, and for a body that is compressed or breaks
 * off.
 */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  if (!hasBody(request)) return EMPTY;
  const { "content-length": length } = request.headers;
  if (request.headers["content-encoding"] !== undefined) {
    throw new ApiError("invalid_request", "content-encoding: not supported; send the body uncompressed");
  }
  try {
    return await getRawBody(request, { limit: MAX_BODY_BYTES, length: length ?? null });
  } catch (error) {
    throw bodyError(error as RawBodyError);
  }
}

function bodyError(error: RawBodyError): ApiError {
  return error.type === "entity.too.large"
    ? new ApiError("invalid_request", `body: larger than ${MAX_BODY_BYTES} bytes`)
    : new ApiError("invalid_request", "body: ended too early");
}

/** Whether a body is declared as JSON. */
export function declaresJson(request: IncomingMessage): boolean {
  return JSON_TYPE.test(request.headers["content-type"] ?? "");
}

/** Refuses with `invalid_request` a body that is not declared as JSON. No body needs no declaration. */
export function requireJson(request: IncomingMessage, body: Buffer): void {
  if (body.length > 0 && !declaresJson(request)) {
    throw new ApiError("invalid_request", "content-type: must be application/json");
  }
}

/**
 * The value of a JSON body, read as strictly as the protocol's own documents: well-formed UTF-8, no duplicate
 * members, no deep nesting, no U+0000. Throws `invalid_request`, naming the fault and never repeating
 * content. An empty body is `undefined`.
 */
export function parseBody(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  const value = readJson(body);
  refuseNul(body, value);
  return plainJson(value);
}

function readJson(body: Buffer): JsonValue {
  try {
    return parseJson(body, { bytes: MAX_BODY_BYTES, depth: MAX_BODY_DEPTH });
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new ApiError("invalid_request", `body: ${error.code}: ${error.detail}`);
  }
}
