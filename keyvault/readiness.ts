import type { Journal } from "./audit/journal.ts";
import type { Token } from "./token/client.ts";

/** Whether the vault can sign right now. */
export type Readiness = {
  /** Proves token and audit, at most once a second whoever asks. Rejects with the `VaultError` of the part that is away. */
  check(): Promise<void>;
};

const FRESH_MS = 1_000;

/** Readiness of these parts. `elapsed` is a clock that never goes back, in milliseconds. */
export function createReadiness(token: Token, journal: Journal, elapsed: () => number): Readiness {
  let last: { at: number; result: Promise<void> } | undefined;
  return {
    check() {
      if (last === undefined || elapsed() - last.at > FRESH_MS) {
        const result = Promise.all([token.health(), journal.probe()]).then(() => {});
        last = { at: elapsed(), result };
      }
      return last.result;
    },
  };
}
