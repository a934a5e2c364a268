import { z } from "zod";
import { ApiError } from "./errors.ts";

const SHOWN_FAULTS = 5;
const SHOWN_CHARACTERS = 300;

/**
 * A part of a request as its schema reads it. Throws `invalid_request` with the path of each fault, up to five; what
 * was sent is not repeated. `part` stands before the paths; without one they begin at the body.
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
