import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { JsonValue } from "../protocol/encoding/json.ts";

/** Maximum size of a request body in bytes. */
export const MAX_BODY_BYTES = 262_144;

const SHOWN_FAULTS = 5;
const SHOWN_CHARACTERS = 300;

/**
 * Validates a part of a request, and returns the parsed value. Throws `invalid_request` with the path and
 * message of at most five faults. The message never repeats input. Each path starts with `part`, or at the
 * body if `part` is omitted.
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
 * Throws `invalid_request` if a string or member name in a JSON body contains U+0000, which the database
 * cannot store. `value` was parsed from `body`, where valid JSON has U+0000 only as an escape.
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
