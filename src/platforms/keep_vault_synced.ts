import { setTimeout as sleep } from "node:timers/promises";
import { syncVault, type VaultSyncDeps } from "./sync_vault.ts";

const EVERY_MS = 30_000;

/**
 * Tells the vault, now and every 30 seconds, what it could not be sent when it happened: after a crash, or
 * while it was away. Several processes may do so concurrently.
 */
export function keepVaultSynced(deps: VaultSyncDeps, everyMs: number = EVERY_MS): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await syncVault(deps);
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
