import { compareUtf8 } from "../encoding/canonical.ts";
import { MAX_SCOPE_LENGTH_BYTES } from "../encoding/constants.ts";
import { CANONICAL_SCOPES, WILDCARDS } from "./scope_vocabulary.ts";

const CUSTOM_PREFIX = "custom:";

/**
 * Returns whether `scope` is canonical, a wildcard, or `custom:` and a character or more (wire format §6).
 */
export function isValidScope(scope: string): boolean {
  return (
    CANONICAL_SCOPES.has(scope) ||
    WILDCARDS.has(scope) ||
    (scope.startsWith(CUSTOM_PREFIX) && scope.length > CUSTOM_PREFIX.length)
  );
}

/** Returns those of the given scopes that are not valid in a certificate, in the order given. */
export function invalidScopes(scopes: readonly string[]): string[] {
  return scopes.filter((scope) => !isValidScope(scope));
}

/**
 * Returns every scope that `scopes` grants, sorted by code point, without duplicates. A wildcard grants the
 * non-sensitive scopes of its group (wire format §6). Any other scope grants itself, even if it is not valid.
 */
export function expandScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes.flatMap((scope) => WILDCARDS.get(scope) ?? [scope]))].sort(compareUtf8);
}

/** Cache of expanded scopes. Its keys are frozen lists only. */
const expansions = new WeakMap<readonly string[], readonly string[]>();

function expandOnce(scopes: readonly string[]): readonly string[] {
  const known = expansions.get(scopes);
  if (known !== undefined) return known;
  const expanded = expandScopes(scopes);
  if (Object.isFrozen(scopes)) expansions.set(scopes, expanded);
  return expanded;
}

/** Returns the scopes that grant `scope`: the wildcards that include it, and itself if it is no wildcard. */
export function scopesGranting(scope: string): string[] {
  const wildcards = [...WILDCARDS.keys()].filter((wildcard) => WILDCARDS.get(wildcard)?.includes(scope));
  return WILDCARDS.has(scope) ? wildcards : [scope, ...wildcards];
}

/** Expands the given scopes, and returns those of the expanded scopes that `ceiling` does not grant. */
export function coversScopes(ceiling: readonly string[], scopes: readonly string[]): string[] {
  const granted = new Set(expandScopes(ceiling));
  return expandScopes(scopes).filter((scope) => !granted.has(scope));
}

/** Grants every scope that starts with `custom:`, in the ceiling of a service or an account's root key. */
export const EVERY_CUSTOM = "custom:*";

/**
 * Like {@link coversScopes}, for the ceiling of a service or of an account's root key. In these two ceilings,
 * `custom:*` grants every custom scope. Elsewhere it is an ordinary scope (wire format §6).
 */
export function beyondCeiling(ceiling: readonly string[], scopes: readonly string[]): string[] {
  const wider = coversScopes(ceiling, scopes);
  return ceiling.includes(EVERY_CUSTOM) ? wider.filter((scope) => !scope.startsWith(CUSTOM_PREFIX)) : wider;
}

/**
 * Returns the scopes that every list grants, expanded and sorted by code point. For the lists of a chain's
 * certificates, this is the chain's effective scope (wire format §6).
 */
export function intersectScopes(...lists: readonly (readonly string[])[]): string[] {
  const [first = [], ...others] = lists;
  const sets = others.map((scopes) => new Set(expandOnce(scopes)));
  return expandOnce(first).filter((scope) => sets.every((granted) => granted.has(scope)));
}

/** Matches `custom:` followed by two to four parts. The last part may be `*`. */
const CUSTOM = /^custom(?::[A-Za-z0-9][A-Za-z0-9._-]*){1,3}:(?:[A-Za-z0-9][A-Za-z0-9._-]*|\*)$/;

/** Form of a custom scope, as error messages show it. */
export const CUSTOM_FORM = "custom:<area>:<action>";

/**
 * Returns whether this service lets a caller register, request or require `scope`: a canonical scope, a
 * wildcard, or {@link CUSTOM_FORM} with two to four parts. This is narrower than {@link isValidScope},
 * because certificates from other services may contain any text after `custom:`. A last part `*` is an
 * ordinary name: `custom:orders:*` does not grant `custom:orders:refund` (wire format §6).
 */
export function isRegistrableScope(scope: string): boolean {
  if (!scope.startsWith(CUSTOM_PREFIX)) return isValidScope(scope);
  return CUSTOM.test(scope) && scope.length <= MAX_SCOPE_LENGTH_BYTES;
}

/** Returns whether `scope` is a custom scope that ends with `*`. It grants only itself. */
export function isCustomWildcard(scope: string): boolean {
  return scope.startsWith(CUSTOM_PREFIX) && scope.endsWith(":*");
}

/** Returns whether a caller may require `scope`: a registrable scope that is not a wildcard. */
export function isRequirableScope(scope: string): boolean {
  return !scope.endsWith(":*") && isRegistrableScope(scope);
}

/** Returns those of the given scopes that cannot be registered, in the order given, without duplicates. */
export function unregistrableScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes.filter((scope) => !isRegistrableScope(scope)))];
}
