import { isPlainLine } from "../../input/plain_text.ts";
import type { Constraint } from "../../protocol/constraints/constraints.ts";

/**
 * Why people would not see what they sign with a well-formed constraint: a text in it, at any depth, or the
 * name of a member of `params`, is not one plain line. Says where and not what. `undefined` when they see all
 * of it.
 */
export function textViolation(constraint: Constraint): string | undefined {
  for (const [name, value] of Object.entries(constraint)) {
    if (!texts(value).every(isPlainLine)) {
      return `${name}: must be one line that shows all of itself: nothing invisible, no unusual spaces or stray marks, no space at an end`;
    }
  }
  return undefined;
}

function texts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return [...names, ...Object.values(value).flatMap(texts)];
}
