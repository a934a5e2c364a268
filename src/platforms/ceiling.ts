import { z } from "zod";
import { ApiError } from "../errors.ts";
import { MAX_SCOPE_LENGTH_BYTES } from "../protocol/constants.ts";
import { beyondCeiling, coversScopes, invalidScopes } from "../protocol/scopes.ts";
import { isIdentifier } from "../protocol/text.ts";

/** Scopes a ceiling or a request may list. */
export const MAX_SCOPES = 64;

/** A list of scopes as a call carries it, 1–64. Whether each is a scope is told by {@link checkScopes}. */
export const scopeList = z.array(z.string()).min(1).max(MAX_SCOPES);

/** The scopes, each once, in the order given. Throws `invalid_scopes`, naming those that are neither canonical nor `custom:`. */
export function checkScopes(scopes: readonly string[]): string[] {
  const refused = new Set([...invalidScopes(scopes), ...scopes.filter((scope) => !isStorable(scope))]);
  if (refused.size > 0) throw new ApiError("invalid_scopes", `Not valid scopes: ${named([...refused])}`);
  return [...new Set(scopes)];
}

/** Throws `ceiling_exceeded`, naming what `ceiling` does not grant. Wildcards count as what they expand to. */
export function checkCeiling(ceiling: readonly string[], scopes: readonly string[]): void {
  const over = coversScopes(ceiling, scopes);
  if (over.length > 0) throw new ApiError("ceiling_exceeded", `Above the platform's ceiling: ${named(over)}`);
}

/** Throws `ceiling_exceeded`, naming what the account's own ceiling, if it has one, does not grant: the vault would not sign it. */
export function checkAccountCeiling(ceiling: readonly string[] | null, scopes: readonly string[]): void {
  const over = ceiling === null ? [] : beyondCeiling(ceiling, scopes);
  if (over.length > 0) throw new ApiError("ceiling_exceeded", `Above the account's ceiling: ${named(over)}`);
}

/** Throws `ceiling_widened`, naming what `next` grants and `ceiling` does not. */
export function checkShrinks(ceiling: readonly string[], next: readonly string[]): void {
  const added = coversScopes(ceiling, next);
  if (added.length > 0) throw new ApiError("ceiling_widened", `The ceiling may only shrink: ${named(added)}`);
}

/** Scopes for a message, quoted, each cut to a readable length. */
export function named(scopes: readonly string[]): string {
  return scopes
    .map((scope) => JSON.stringify(scope.length > 80 ? `${scope.slice(0, 80)}…` : scope))
    .join(", ");
}

function isStorable(scope: string): boolean {
  return isIdentifier(scope, MAX_SCOPE_LENGTH_BYTES) && !/\p{Cc}/u.test(scope);
}
