import { ApiError } from "../../errors.ts";

/**
 * Query parameters by name. Throws `invalid_request` for one that is repeated, because which of them counts
 * would be a guess, and for text that the database cannot store.
 */
export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf("?");
  const query: Record<string, string> = {};
  if (start === -1) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (Object.hasOwn(query, name)) throw new ApiError("invalid_request", "query: a parameter is repeated");
    if (name.includes("\0") || value.includes("\0")) {
      throw new ApiError("invalid_request", "query: must not contain U+0000");
    }
    Object.defineProperty(query, name, { value, enumerable: true });
  }
  return query;
}
