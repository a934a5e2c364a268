import type { IncomingMessage } from "node:http";
import getRawBody from "raw-body";
import type { z } from "zod";
import { MAX_JSON_NESTING_DEPTH } from "../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../src/protocol/encoding/json.ts";
import { VaultError } from "../errors.ts";
import { readFlatJson } from "./flat_json.ts";
import type { CallContext } from "./routes.ts";

/** Bytes a body may have, except for a revocation list. */
export const MAX_BODY_BYTES = 131_072;

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
