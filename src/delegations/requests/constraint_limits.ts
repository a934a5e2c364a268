import {
  type Constraint,
  isKnownConstraint,
  type KnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import { normalizePath } from "../../protocol/constraints/resource_path.ts";
import { fitsBytes } from "../../protocol/encoding/fields.ts";

/** Longest currency that a decision can be asked with, in characters. */
export const MAX_CURRENCY_CHARACTERS = 16;
/** Longest resource id that a decision can be asked with, in bytes. */
export const MAX_RESOURCE_ID_BYTES = 512;
/** Longest path that a decision can be asked with, in characters. */
export const MAX_PATH_CHARACTERS = 4096;
/** Longest time over which uses are counted, in seconds: one year. */
export const MAX_RATE_WINDOW_SECONDS = 31_536_000;

/**
 * Why a well-formed constraint could never hold here: no decision can be asked with the currency, resource or
 * path that it names, or it counts over more time than uses are counted. `undefined` when there is nothing,
 * as for any extension.
 */
export function limitViolation(constraint: Constraint): string | undefined {
  return isKnownConstraint(constraint) ? knownViolation(constraint) : undefined;
}

function knownViolation(constraint: KnownConstraint): string | undefined {
  switch (constraint.type) {
    case "max_amount":
      return constraint.currency.length > MAX_CURRENCY_CHARACTERS
        ? `max_amount: currency has more than ${MAX_CURRENCY_CHARACTERS} characters`
        : undefined;
    case "resource_path":
      if (!fitsBytes(constraint.resource_id, MAX_RESOURCE_ID_BYTES)) {
        return `resource_path: resource_id has more than ${MAX_RESOURCE_ID_BYTES} bytes`;
      }
      return (normalizePath(constraint.path_prefix ?? "/") ?? "").length > MAX_PATH_CHARACTERS
        ? `resource_path: path_prefix has more than ${MAX_PATH_CHARACTERS} characters`
        : undefined;
    case "max_rate":
      return constraint.window_s > MAX_RATE_WINDOW_SECONDS
        ? `max_rate: window_s is more than ${MAX_RATE_WINDOW_SECONDS}`
        : undefined;
    default:
      return undefined;
  }
}
