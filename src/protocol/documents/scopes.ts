import { compareUtf8 } from "../encoding/canonical.ts";
import { MAX_SCOPE_LENGTH_BYTES } from "../encoding/constants.ts";
import { CANONICAL_SCOPES, WILDCARDS } from "./scope_vocabulary.ts";

const CUSTOM_PREFIX = "custom:";

/**
 * Whether `scope` may be in a certificate: canonical, a wildcard, or `custom:` and at least one character
 * (wire format §6).
 */
export function isValidScope(scope: string): boolean {
  return (
    CANONICAL_SCOPES.has(scope) ||
    WILDCARDS.has(scope) ||
    (scope.startsWith(CUSTOM_PREFIX) && scope.length > CUSTOM_PREFIX.length)
  );
}

/**
 * The scopes that may not be in a certificate, in their order; reserved prefixes are among them. Empty means
 * all are valid.
 */
export function invalidScopes(scopes: readonly string[]): string[] {
  return scopes.filter((scope) => !isValidScope(scope));
}

/**
 * Every scope that `scopes` grants, sorted by code point, each once. A wildcard gives the non-sensitive
 * scopes of its group (wire format §6); anything else gives itself, whether it is valid or not.
 */
export function expandScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes.flatMap((scope) => WILDCARDS.get(scope) ?? [scope]))].sort(compareUtf8);
}

/** What lists that nobody can change expand to. */
const expansions = new WeakMap<readonly string[], readonly string[]>();

function expandOnce(scopes: readonly string[]): readonly string[] {
  const known = expansions.get(scopes);
  if (known !== undefined) return known;
  const expanded = expandScopes(scopes);
  if (Object.isFrozen(scopes)) expansions.set(scopes, expanded);
  return expanded;
}

/**
 * What grants `scope` where it is in a list: itself, unless it is a wildcard, and the wildcards that expand
 * to it.
 */
export function scopesGranting(scope: string): string[] {
  const wildcards = [...WILDCARDS.keys()].filter((wildcard) => WILDCARDS.get(wildcard)?.includes(scope));
  return WILDCARDS.has(scope) ? wildcards : [scope, ...wildcards];
}

/**
 * The scopes of `scopes`, expanded, that `ceiling` does not grant. Empty means that `scopes` stays within
 * `ceiling`.
 */
export function coversScopes(ceiling: readonly string[], scopes: readonly string[]): string[] {
  const granted = new Set(expandScopes(ceiling));
  return expandScopes(scopes).filter((scope) => !granted.has(scope));
}

/** In the ceiling of a service or of an account's root key: every scope after `custom:`. */
export const EVERY_CUSTOM = "custom:*";

/**
 * As {@link coversScopes}, for the ceiling of a service or of an account's root key, where `custom:*` grants
 * every custom scope. In a platform's ceiling, a request or a certificate it is a scope like any other (wire
 * format §6).
 */
export function beyondCeiling(ceiling: readonly string[], scopes: readonly string[]): string[] {
  const wider = coversScopes(ceiling, scopes);
  return ceiling.includes(EVERY_CUSTOM) ? wider.filter((scope) => !scope.startsWith(CUSTOM_PREFIX)) : wider;
}

/**
 * What all lists grant together, expanded and sorted by code point: the effective scope of a chain (wire
 * format §6).
 */
export function intersectScopes(...lists: readonly (readonly string[])[]): string[] {
  const [first = [], ...others] = lists;
  const sets = others.map((scopes) => new Set(expandOnce(scopes)));
  return expandOnce(first).filter((scope) => sets.every((granted) => granted.has(scope)));
}

/** `custom:` and two to four parts, of which the last may be `*`. */
const CUSTOM = /^custom(?::[A-Za-z0-9][A-Za-z0-9._-]*){1,3}:(?:[A-Za-z0-9][A-Za-z0-9._-]*|\*)$/;

/** The form of a custom scope, for messages. */
export const CUSTOM_FORM = "custom:<area>:<action>";

/**
 * Whether `scope` may be registered, requested or required here: canonical, a wildcard, or {@link
 * CUSTOM_FORM} of two to four parts, each a letter or digit and then letters, digits, `.`, `_` and `-`.
 * Narrower than what a certificate may carry: those from elsewhere may carry any text after `custom:`.
 *
 * A last part `*` is a name like any other: the published rules take a custom scope literally, so
 * `custom:orders:*` grants no `custom:orders:refund` (wire format §6).
 */
export function isRegistrableScope(scope: string): boolean {
  if (!scope.startsWith("custom:")) return isValidScope(scope);
  return CUSTOM.test(scope) && scope.length <= MAX_SCOPE_LENGTH_BYTES;
}

/** Whether `scope` may be required here: one that may be registered, and no wildcard. */
export function isRequirableScope(scope: string): boolean {
  return !scope.endsWith(":*") && isRegistrableScope(scope);
}

/** The scopes that may not be registered, each once, in their order. */
export function unregistrableScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes.filter((scope) => !isRegistrableScope(scope)))];
}
