import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import getRawBody from "raw-body";
import type { z } from "zod";
import { MAX_JSON_NESTING_DEPTH } from "../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../src/protocol/encoding/json.ts";
import { VaultError } from "../errors.ts";
import type { CallContext } from "./routes.ts";

/** Bytes a body may have, except for a revocation list. */
const MAX_BODY_BYTES = 131_072;

/**
 * Bytes of a revocation list's body: room for the most ids of the service's own form, 44 bytes each with
 * quotes and comma, and their ends, 11 each.
 */
export const MAX_LIST_BODY_BYTES = 2_883_584;

const JSON_TYPE = /^application\/json(;\s*charset=utf-8)?$/i;

/**
 * The body of a call, read strictly (size, UTF-8, nesting, no doubled keys, no trailing content) and in the
 * schema's shape. Its caller is judged again when it is there: it may have been revoked meanwhile.
 * @param maxBytes how many bytes it may have; long ones cost the least when they are flat and compact Throws
 * `VaultError` `invalid_request`, naming places and never values, or what {@link CallContext.requireCaller}
 * throws
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
    return shaped(schema, flat ?? plainJson(parseJson(bytes, limits)), "body");
  } catch (error) {
    if (error instanceof ProtocolError) throw new VaultError("invalid_request", `body: ${error.code}`);
    throw error;
  }
}

/** A value in the schema's shape. Throws `VaultError invalid_request`. */
export function shaped<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
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

/** An object of texts, whole numbers, and lists of nothing but texts or nothing but whole numbers. */
type FlatObject = Record<string, string | number | string[] | number[]>;

/**
 * What the strict reader gives for a document, in a fraction of its time: for one that is flat, without
 * escapes, and written exactly as `JSON.stringify` writes it. Nothing for any other, good or bad: that is the
 * strict reader's to judge. When the same text is written again, no key is repeated and no number has another
 * form.
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
