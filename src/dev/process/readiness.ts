import { setTimeout as sleep } from "node:timers/promises";

const EVERY_MS = 25;

/**
 * Asks `url` until it answers with a success status. Rejects with the last failure when `signal` is aborted.
 */
export async function untilAnswers(url: string, signal: AbortSignal): Promise<void> {
  let last: unknown;
  while (!signal.aborted) {
    try {
      const response = await fetch(url, { signal });
      await response.body?.cancel();
      if (response.ok) {
        return;
      }
      last = new Error(`${url} answered ${response.status}`);
    } catch (error) {
      last = signal.aborted ? (last ?? error) : error;
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  throw last ?? signal.reason;
}
