import type { Journal } from "./audit/journal.ts";
import { VaultError } from "./errors.ts";
import type { Token } from "./token/client.ts";

/** Whether the vault can sign right now. */
export type Readiness = {
  /**
   * Proves token and audit, at most once a second, however many ask. Rejects with the `VaultError` of the
   * part that is away.
   */
  check(): Promise<void>;
};

const FRESH_MS = 1_000;

/**
 * Readiness of the parts that are open now; undefined while the vault is sealed. `elapsed` never goes back,
 * in milliseconds.
 */
export function createReadiness(
  opened: () => { token: Token; journal: Journal } | undefined,
  elapsed: () => number,
): Readiness {
  let last: { at: number; result: Promise<void> } | undefined;

  async function prove(): Promise<void> {
    const parts = opened();
    if (parts === undefined) throw new VaultError("sealed");
    await Promise.all([parts.token.health(), parts.journal.probe()]);
  }

  return {
    check() {
      if (last === undefined || elapsed() - last.at > FRESH_MS) {
        last = { at: elapsed(), result: prove() };
      }
      return last.result;
    },
  };
}
