import type { IncomingMessage } from "node:http";
import getRawBody, { type RawBodyError } from "raw-body";
import { ApiError } from "../errors.ts";
import { ProtocolError } from "../protocol/errors.ts";
import { type JsonValue, parseJson, plainJson } from "../protocol/json.ts";
import { refuseNul } from "../validate.ts";

/** Bytes a request's body may have. */
export const MAX_BODY_BYTES = 262_144;
/** Objects and arrays that may be open at once in a JSON body. */
const MAX_BODY_DEPTH = 32;

const EMPTY = Buffer.alloc(0);
const JSON_TYPE = /^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i;

/**
 * The bytes of a request's body; none when it has none. Throws `invalid_request` as soon as the length that is
 * announced, or what has arrived, is over `MAX_BODY_BYTES`, and for a body that is compressed or breaks off.
 */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const { "content-length": length, "transfer-encoding": transfer } = request.headers;
  if ((length === undefined || length === "0") && transfer === undefined) return EMPTY;
  if (request.headers["content-encoding"] !== undefined) {
    throw new ApiError("invalid_request", "content-encoding: send the body as it is");
  }
  try {
    return await getRawBody(request, { limit: MAX_BODY_BYTES, length: length ?? null });
  } catch (error) {
    throw bodyFault(error as RawBodyError);
  }
}

function bodyFault(error: RawBodyError): ApiError {
  return error.type === "entity.too.large"
    ? new ApiError("invalid_request", `body: larger than ${MAX_BODY_BYTES} bytes`)
    : new ApiError("invalid_request", "body: broke off before its end");
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
 * The value of a JSON body, read as strictly as the protocol's own documents: well-formed UTF-8, no duplicate members,
 * no deep nesting, no U+0000. Throws `invalid_request`, naming the fault and never repeating content. An empty body is
 * `undefined`.
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

/** Bytes that are taken in of a body after its call was answered: 256 times what a body may have. */
const DRAIN_BYTES = 67_108_864;
/** Milliseconds that this may take in all: as long as a request may take to arrive. */
const DRAIN_MS = 30_000;
/** Milliseconds that a sender may pause meanwhile. */
const DRAIN_PAUSE_MS = 5_000;

/**
 * Takes in what is left of a request that was answered before it was read, and keeps none of it: many clients read no
 * answer before they have sent all, and a connection that is closed on unread bytes is reset, answer included. One that
 * goes on for more than 64 MiB or 30 s, or pauses for 5 s, is cut off. Resolves when the request is over either way.
 */
export function drain(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    let rest = DRAIN_BYTES;
    const cutOff = () => request.destroy();
    const whole = setTimeout(cutOff, DRAIN_MS);
    const pause = setTimeout(cutOff, DRAIN_PAUSE_MS);
    request.on("data", (chunk: Buffer) => {
      rest -= chunk.length;
      if (rest < 0) cutOff();
      else pause.refresh();
    });
    const over = () => {
      clearTimeout(whole);
      clearTimeout(pause);
      resolve();
    };
    request.once("end", over).once("close", over).on("error", over);
    request.resume();
  });
}
