import { z } from "zod";
import { ApiError } from "../errors.ts";

const SHOWN_FAULTS = 5;
const SHOWN_CHARACTERS = 300;

/**
 * A part of a request as its schema reads it. Throws `invalid_request` with the path of each fault, up to five; what
 * was sent is not repeated.
 */
export function validate<T>(schema: z.ZodType<T>, value: unknown, part: string): T {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  throw new ApiError("invalid_request", describe(result.error, part));
}

function describe({ issues }: z.ZodError, part: string): string {
  const faults = issues
    .slice(0, SHOWN_FAULTS)
    .map(({ path, message }) => `${z.core.toDotPath([part, ...path])}: ${message}`);
  const text = faults.join("; ");
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/**
 * Query parameters by name. Throws `invalid_request` for one that stands twice, because which of them counts would be
 * a guess, and for text that the database has no room for.
 */
export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf("?");
  const query: Record<string, string> = {};
  if (start === -1) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (Object.hasOwn(query, name)) throw new ApiError("invalid_request", "query: a parameter stands twice");
    if (name.includes("\0") || value.includes("\0"))
      throw new ApiError("invalid_request", "query: holds U+0000");
    Object.defineProperty(query, name, { value, enumerable: true });
  }
  return query;
}
