/** How quickly retries slow down, in milliseconds. */
export type BackoffRange = { baseMs: number; maxMs: number };

/** For ordinary work. */
export const ORDINARY: BackoffRange = { baseMs: 1000, maxMs: 300_000 };
/** For what takes authority away or gives what was just approved. */
export const URGENT: BackoffRange = { baseMs: 250, maxMs: 30_000 };

/**
 * Milliseconds before the retry that follows `failures` failures (1 or more): doubling, then 50–100 % of it
 * by chance.
 */
export function backoffMs({ baseMs, maxMs }: BackoffRange, failures: number, random: () => number): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(full * (0.5 + random() / 2));
}
