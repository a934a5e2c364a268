import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { JsonValue } from "../protocol/encoding/json.ts";

/** Maximum size of a request body in bytes. */
export const MAX_BODY_BYTES = 262_144;

const INSIDE = "must be within ±(2^53−1)";
const SHOWN_FAULTS = 5;
const SHOWN_CHARACTERS = 300;

/**
 * Validates a part of a request, and returns the parsed value. Throws `invalid_request` with the path and
 * message of at most five faults. The message never repeats input. Each path starts with `part`, or at the
 * body if `part` is omitted.
 */
export function validate<T>(schema: z.ZodType<T>, value: unknown, part = ""): T {
  const error: z.core.$ZodErrorMap = ({ input }) => (typeof input === "bigint" ? INSIDE : undefined);
  const result = schema.safeParse(value, { reportInput: false, error });
  if (result.success) return result.data;
  throw new ApiError("invalid_request", describe(result.error, part));
}

/**
 * Throws `invalid_request` if a validated value contains a whole number outside ±(2^53−1), which is marked as
 * a `bigint`. Such a number may be rounded, so only a member that nobody reads may have one.
 */
export function refuseLarge(value: unknown, part: string): void {
  const path = pathOfLarge(value);
  if (path === undefined) return;
  throw new ApiError(
    "invalid_request",
    describe(new z.ZodError([{ code: "custom", path, message: INSIDE }]), part),
  );
}

function pathOfLarge(value: unknown): (string | number)[] | undefined {
  if (typeof value === "bigint") return [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, member] of Object.entries(value)) {
    const path = pathOfLarge(member);
    if (path !== undefined) return [Array.isArray(value) ? Number(name) : name, ...path];
  }
  return undefined;
}

/** Returns `value` as JSON. Writes the digits of a `bigint`, unlike `JSON.stringify`, which throws. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (_, member) => (typeof member === "bigint" ? Number(member) : member));
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
