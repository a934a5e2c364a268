import type { IncomingMessage } from "node:http";
import getRawBody, { type RawBodyError } from "raw-body";
import { inTime } from "../clock.ts";
import { createKeyCounts } from "../concurrency/key_counts.ts";
import { ApiError } from "../errors.ts";
import { MAX_BODY_BYTES, refuseNul } from "../input/validate.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { type JsonLimits, type JsonValue, parseJson, plainJson } from "../protocol/encoding/json.ts";

/** Maximum bytes of a JSON body, and how deep objects and arrays may be nested in it. */
const LIMITS: JsonLimits = { bytes: MAX_BODY_BYTES, depth: 32 };

const BODY_MS = 10_000;

const EMPTY = Buffer.alloc(0);
const JSON_TYPE = /^application\/json\s*(?:;\s*charset="?utf-?8"?\s*)?$/i;
const BYTE_ORDER_MARK = Buffer.of(0xef, 0xbb, 0xbf);

function hasBody({ headers }: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": transfer } = headers;
  return transfer !== undefined || (length !== undefined && length !== "0");
}

/**
 * Throws `invalid_request` for a compressed or incomplete body, and as soon as the announced length or the
 * received bytes exceed `MAX_BODY_BYTES`.
 */
async function readWhole(request: IncomingMessage): Promise<Buffer> {
  if (!hasBody(request)) return EMPTY;
  const { "content-length": length } = request.headers;
  if ((request.headers["content-encoding"] ?? "identity").toLowerCase() !== "identity") {
    throw new ApiError("invalid_request", "content-encoding: not supported; send the body uncompressed");
  }
  try {
    return withoutMark(await getRawBody(request, { limit: MAX_BODY_BYTES, length: length ?? null }));
  } catch (error) {
    throw bodyError(error as RawBodyError);
  }
}

/** Some clients begin a JSON text with a mark, which a parser may ignore (RFC 8259 §8.1). */
function withoutMark(body: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return body.subarray(0, length).equals(BYTE_ORDER_MARK) ? body.subarray(length) : body;
}

function bodyError(error: RawBodyError): ApiError {
  return error.type === "entity.too.large"
    ? new ApiError("invalid_request", `body: larger than ${MAX_BODY_BYTES} bytes`)
    : new ApiError("invalid_request", "body: ended too early");
}

/** Returns whether a request's content type is JSON. */
export function declaresJson(request: IncomingMessage): boolean {
  return JSON_TYPE.test(request.headers["content-type"] ?? "");
}

/** Throws `invalid_request` if a body is not declared as JSON. An empty body needs no content type. */
export function requireJson(request: IncomingMessage, body: Buffer): void {
  if (body.length > 0 && !declaresJson(request)) {
    throw new ApiError("invalid_request", "content-type: must be application/json");
  }
}

/**
 * Returns the value of a JSON body, or `undefined` for an empty body. The body must be well-formed UTF-8,
 * without duplicate members, deep nesting or U+0000. Otherwise throws `invalid_request`, whose message never
 * repeats content of the body. Refuses whole numbers outside ±(2^53−1), or marks each as a `bigint`.
 */
export function parseBody(body: Buffer, largeNumbers?: "mark"): unknown {
  if (body.length === 0) return undefined;
  const value = readJson(body, { ...LIMITS, ...(largeNumbers && { largeNumbers }) });
  refuseNul(body, value);
  return plainJson(value);
}

function readJson(body: Buffer, limits: JsonLimits): JsonValue {
  try {
    return parseJson(body, limits);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new ApiError("invalid_request", `body: ${error.code}: ${error.detail}`);
  }
}

type BodyLimits = {
  /**
   * Throws `rate_limited` if the client already sends as many bodies as allowed, and `invalid_request` if
   * this body does not arrive in time.
   */
  wait<T>(client: string, read: () => Promise<T>): Promise<T>;
};

/** Lets each client send `perClient` bodies at a time. Each body must arrive within `bodyMs` milliseconds. */
export function createBodyLimits({
  perClient,
  bodyMs = BODY_MS,
}: {
  perClient: number;
  bodyMs?: number;
}): BodyLimits {
  const open = createKeyCounts();
  return {
    async wait(client, read) {
      if (!open.enter(client, perClient)) {
        throw new ApiError(
          "rate_limited",
          "Too many request bodies from this address are arriving at the same time",
          {
            "retry-after": "1",
          },
        );
      }
      try {
        return await inTime(
          bodyMs,
          read(),
          () => new ApiError("invalid_request", `body: did not arrive within ${bodyMs / 1000} seconds`),
        );
      } finally {
        open.leave(client);
      }
    },
  };
}

/** Reads the bytes of a body from the client with the address `ip`. Waits only if a body is announced. */
export type ReadBody = (message: IncomingMessage, ip: () => string) => Promise<Buffer>;

/** Creates a `ReadBody`. `bodyLimits` applies to all bodies of one network together. */
export function createReadBody(bodyLimits: BodyLimits, networkOf: (ip: string) => string): ReadBody {
  return async (message, ip) =>
    hasBody(message) ? bodyLimits.wait(networkOf(ip()), () => readWhole(message)) : readWhole(message);
}
