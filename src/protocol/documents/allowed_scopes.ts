import { MAX_SCOPE_LENGTH_BYTES } from "../encoding/constants.ts";
import { isValidScope } from "./scopes.ts";

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
