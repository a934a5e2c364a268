import type { IncomingMessage } from "node:http";
import { ApiError } from "../../errors.ts";

/**
 * A header under any of its names. Throws `invalid_request` when two of them say different things: a gateway
 * that sets the header under one name could not keep its clients from sending another.
 */
export function readHeader({ headers }: IncomingMessage, names: readonly string[]): string | undefined {
  let found: string | undefined;
  for (const name of names) {
    const value = headers[name];
    if (value === undefined) continue;
    const text = Array.isArray(value) ? value.join(", ") : value;
    if (found !== undefined && found !== text) {
      throw new ApiError("invalid_request", `${name}: sent under two names with different values`);
    }
    found = text;
  }
  return found;
}
