import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import getRawBody from "raw-body";
import type { z } from "zod";
import { MAX_JSON_NESTING_DEPTH } from "../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../src/protocol/encoding/json.ts";
import { VaultError } from "../errors.ts";
import type { CallContext } from "./routes.ts";

/** Maximum bytes of a request body, except for a revocation list. */
const MAX_BODY_BYTES = 131_072;

/**
 * Maximum bytes of a revocation list's body. This is enough for the maximum number of ids in the service's
 * own form (44 bytes with quotes and comma) and of expiry times (11 bytes).
 */
export const MAX_LIST_BODY_BYTES = 2_883_584;

const JSON_TYPE = /^application\/json(;\s*charset=utf-8)?$/i;

/**
 * Reads the body of a call strictly (size, UTF-8, nesting, no duplicate keys, no trailing content) and checks
 * it against the schema. Checks the caller again when the body is complete, because its certificate may have
 * been revoked meanwhile. Throws `VaultError` `invalid_request`, which names the invalid fields and never
 * their values, or the error of {@link CallContext.requireCaller}.
 * @param maxBytes maximum size of the body. Long bodies are parsed fastest if they are flat and compact.
 */
export async function readBody<T>(
  { req: request, requireCaller }: Pick<CallContext, "req" | "requireCaller">,
  schema: z.ZodType<T>,
  maxBytes: number = MAX_BODY_BYTES,
): Promise<T> {
  if (!JSON_TYPE.test(request.headers["content-type"] ?? "")) {
    throw new VaultError("invalid_request", "content-type: must be application/json");
  }
  if (request.headers["content-encoding"] !== undefined) {
    throw new VaultError("invalid_request", "content-encoding: not supported; send the body uncompressed");
  }
  const bytes = await readBytes(request, maxBytes);
  requireCaller();
  try {
    const limits = { bytes: maxBytes, depth: MAX_JSON_NESTING_DEPTH };
    const flat = bytes.length > MAX_BODY_BYTES ? readFlatJson(bytes) : undefined;
    return validate(schema, flat ?? plainJson(parseJson(bytes, limits)), "body");
  } catch (error) {
    if (error instanceof ProtocolError) throw new VaultError("invalid_request", `body: ${error.code}`);
    throw error;
  }
}

/** Checks a value against the schema. Throws `VaultError invalid_request`. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new VaultError(
    "invalid_request",
    `${[where, ...(issue?.path ?? [])].join(".")}: ${issue?.message ?? "malformed"}`,
  );
}

async function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  try {
    return await getRawBody(request, {
      limit: maxBytes,
      length: request.headers["content-length"] ?? null,
    });
  } catch (error) {
    const tooLarge = (error as { type?: string }).type === "entity.too.large";
    throw new VaultError(
      "invalid_request",
      tooLarge ? `body: more than ${maxBytes} bytes` : "body: ended too early",
    );
  }
}

type FlatObject = Record<string, string | number | string[] | number[]>;

/**
 * Parses a document much faster than the strict reader, if it is flat, has no escapes, and is written exactly
 * as `JSON.stringify` writes it. Returns `undefined` for all other documents, including those with repeated
 * keys or other forms of numbers. The strict reader must check them.
 */
export function readFlatJson(bytes: Buffer): FlatObject | undefined {
  if (!isUtf8(bytes)) return undefined;
  const text = bytes.toString("utf8");
  if (text.includes("\\")) return undefined;
  const value = parsed(text);
  return isFlat(value) && JSON.stringify(value) === text ? value : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isFlat(value: unknown): value is FlatObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    (member) => typeof member === "string" || Number.isSafeInteger(member) || isFlatList(member),
  );
}

function isFlatList(value: unknown): boolean {
  if (!Array.isArray(value)) return false;
  return value.every((item) => typeof item === "string") || value.every(Number.isSafeInteger);
}
