import type { IncomingMessage } from "node:http";
import getRawBody from "raw-body";
import type { z } from "zod";
import { ProtocolError } from "../../src/protocol/errors.ts";
import { parseJson, plainJson } from "../../src/protocol/json.ts";
import { VaultError } from "../errors.ts";

/** Bytes a body may have. */
export const MAX_BODY_BYTES = 131_072;

const JSON_TYPE = /^application\/json(;\s*charset=utf-8)?$/i;

/**
 * The body of a call, read strictly (size, UTF-8, nesting, no doubled keys, no trailing content) and in the schema's shape.
 * @throws VaultError `invalid_request`, naming places and never values
 */
export async function readBody<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  if (!JSON_TYPE.test(request.headers["content-type"] ?? "")) {
    throw new VaultError("invalid_request", "content-type: must be application/json");
  }
  if (request.headers["content-encoding"] !== undefined) {
    throw new VaultError("invalid_request", "content-encoding: send the body as it is");
  }
  const bytes = await readBytes(request);
  try {
    return shaped(schema, plainJson(parseJson(bytes)), "body");
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

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  try {
    return await getRawBody(request, {
      limit: MAX_BODY_BYTES,
      length: request.headers["content-length"] ?? null,
    });
  } catch (error) {
    const tooLarge = (error as { type?: string }).type === "entity.too.large";
    throw new VaultError(
      "invalid_request",
      tooLarge ? `body: more than ${MAX_BODY_BYTES} bytes` : "body: cut off",
    );
  }
}
