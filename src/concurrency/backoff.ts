/** Range of a random factor for a wait. The factor is uniformly distributed from `least` to `most`. */
export type Jitter = readonly [least: number, most: number];

/** How waits between attempts grow. `base`, `cap` and the result have the same unit. */
export type Backoff = {
  base: number;
  /** The longest wait, before jitter. */
  cap: number;
  /** Factor between one wait and the next. Defaults to 2. */
  factor?: number;
  /** Range of the random factor for each wait. By default, waits are not random. */
  jitter?: Jitter;
};

/**
 * Returns the wait after `failures` consecutive failures (1 or more): at most `cap`, then multiplied by the
 * random factor of the jitter. `random` must be uniform in [0, 1).
 */
export function backoff(
  { base, cap, factor = 2, jitter = [1, 1] }: Backoff,
  failures: number,
  random: () => number = Math.random,
): number {
  return jittered(Math.min(cap, base * factor ** (failures - 1)), jitter, random());
}

/** Returns a wait multiplied by a random factor in the range. `random` is in [0, 1). */
export function jittered(wait: number, [least, most]: Jitter, random: number): number {
  return wait * (least + (most - least) * random);
}
