import type { VaultClient } from "../../src/vault/client.ts";
import { createFakeVault, type FakeVault } from "../support/fake_vault.ts";

const CALLS = ["createKey", "signDelegation", "signChallenge", "disableKey", "shrinkCeiling"] as const;

/** Returns the real vault as an API's tests use a vault. Each call uses the current client. */
export function vaultForApi(client: () => VaultClient): FakeVault {
  const calls = CALLS.map((call) => [
    call,
    (...parameters: never[]) => (client()[call] as (...given: never[]) => Promise<unknown>)(...parameters),
  ]);
  return {
    ...createFakeVault(),
    ...Object.fromEntries(calls),
    statements: { revocationList: (...order) => client().statements.revocationList(...order) },
  };
}
