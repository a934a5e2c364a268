import { ApiError } from "../errors.ts";
import {
  beyondCeiling,
  CUSTOM_FORM,
  coversScopes,
  isCustomWildcard,
  unregistrableScopes,
} from "../protocol/documents/scopes.ts";

/** Removes duplicates. Throws `invalid_scopes` with the scopes that cannot be registered. */
export function checkScopes(scopes: readonly string[]): string[] {
  const refused = unregistrableScopes(scopes);
  if (refused.length > 0) {
    throw new ApiError(
      "invalid_scopes",
      `Neither in the vocabulary nor ${CUSTOM_FORM} of two to four parts: ${named(refused)}`,
    );
  }
  return [...new Set(scopes)];
}

/**
 * Like {@link checkScopes}, for the ceiling of a new platform. Also refuses custom scopes that end with `*`,
 * which no call can ever require. Platforms that were registered with such a scope keep it.
 */
export function checkNewScopes(scopes: readonly string[]): string[] {
  const checked = checkScopes(scopes);
  const useless = checked.filter(isCustomWildcard);
  if (useless.length === 0) return checked;
  throw new ApiError(
    "invalid_scopes",
    `The * of a custom scope grants nothing; list each custom scope: ${named(useless)}`,
  );
}

/** Throws `ceiling_exceeded` with the scopes that `ceiling` does not grant. Wildcards are expanded. */
export function checkCeiling(ceiling: readonly string[], scopes: readonly string[]): void {
  const over = coversScopes(ceiling, scopes);
  if (over.length > 0) throw new ApiError("ceiling_exceeded", `Above the platform's ceiling: ${named(over)}`);
}

/**
 * Throws `ceiling_exceeded` with the scopes that the account's own ceiling does not grant. The vault would
 * refuse to sign them. `null` means that the account has no ceiling.
 */
export function checkAccountCeiling(ceiling: readonly string[] | null, scopes: readonly string[]): void {
  const over = ceiling === null ? [] : beyondCeiling(ceiling, scopes);
  if (over.length > 0) throw new ApiError("ceiling_exceeded", `Above the account's ceiling: ${named(over)}`);
}

/** Throws `ceiling_widened` with the scopes that `next` grants but `ceiling` does not. */
export function checkShrinks(ceiling: readonly string[], next: readonly string[]): void {
  const added = coversScopes(ceiling, next);
  if (added.length > 0) {
    throw new ApiError("ceiling_widened", `The ceiling may only shrink, and lacks ${named(added)}`);
  }
}

/** Formats scopes for a message. Each is quoted and cut to a readable length. */
export function named(scopes: readonly string[]): string {
  return scopes
    .map((scope) => JSON.stringify(scope.length > 80 ? `${scope.slice(0, 80)}…` : scope))
    .join(", ");
}
