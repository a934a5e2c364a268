import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { JsonValue } from "../protocol/encoding/json.ts";

/** Bytes that the body of a request may have. */
export const MAX_BODY_BYTES = 262_144;

const SHOWN_FAULTS = 5;
const SHOWN_CHARACTERS = 300;

/**
 * A part of a request as its schema reads it. Throws `invalid_request` with the path of each fault, up to
 * five; what was sent is not repeated. `part` is put before the paths; without one they begin at the body.
 */
export function validate<T>(schema: z.ZodType<T>, value: unknown, part = ""): T {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  throw new ApiError("invalid_request", describe(result.error, part));
}

function describe({ issues }: z.ZodError, part: string): string {
  const faults = issues
    .slice(0, SHOWN_FAULTS)
    .map(
      ({ path, message }) =>
        `${z.core.toDotPath(part === "" ? path : [part, ...path]) || "body"}: ${message}`,
    );
  const text = faults.join("; ");
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/**
 * Refuses with `invalid_request` a JSON body with U+0000 in any text or name, known or not: the database
 * cannot store it. `body` is what `value` was read from, where U+0000 can only occur as its escape.
 */
export function refuseNul(body: Uint8Array, value: JsonValue): void {
  if (Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes("\\u0000") && holdsNul(value)) {
    throw new ApiError("invalid_request", "body: must not contain U+0000");
  }
}

function holdsNul(value: JsonValue): boolean {
  if (typeof value === "string") return value.includes("\0");
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, member]) => name.includes("\0") || holdsNul(member));
}
