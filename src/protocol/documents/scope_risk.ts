import { CANONICAL_SCOPES, SENSITIVE_SCOPES, WILDCARDS } from "./scope_vocabulary.ts";

const MONEY = /^(payments|transact|contract):/;

/** Returns whether uses of a scope of the vocabulary usually have an amount. */
export function hasAmount(scope: string): boolean {
  return MONEY.test(scope);
}

/** Returns whether a scope is of the vocabulary, and its uses usually have no amount. */
export function lacksAmount(scope: string): boolean {
  return (CANONICAL_SCOPES.has(scope) || WILDCARDS.has(scope)) && !hasAmount(scope);
}

/**
 * Returns scopes in the order in which people should read them: sensitive ones, money and contracts,
 * wildcards, other known scopes, and last those whose meaning only their platform knows. Keeps the order
 * otherwise. `isSensitive` can add scopes that a platform calls sensitive.
 */
export function byRisk(
  scopes: readonly string[],
  isSensitive: (scope: string) => boolean = () => false,
): string[] {
  const rank = (scope: string) => (isSensitive(scope) ? 0 : rankOf(scope));
  return scopes.toSorted((one, other) => rank(one) - rank(other));
}

function rankOf(scope: string): number {
  if (SENSITIVE_SCOPES.has(scope)) return 0;
  if (hasAmount(scope)) return 1;
  if (scope.startsWith("custom:")) return 4;
  return scope.endsWith(":*") ? 2 : 3;
}
