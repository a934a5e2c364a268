/** A share of a wait: from `least` to `most` of it, uniformly by chance. */
export type Jitter = readonly [least: number, most: number];

/** How waits between tries grow. `base` and `cap` have the same unit, which is also that of the result. */
export type Backoff = {
  /** The wait after the first failure. */
  base: number;
  /** The longest wait, before jitter. */
  cap: number;
  /** How many times as long each further wait is: 2, if it is left out. */
  factor?: number;
  /** Which share of the wait is taken: all of it, if it is left out. */
  jitter?: Jitter;
};

/**
 * The wait after `failures` failures in a row, 1 or more: `base` times `factor` for each failure after the
 * first, `cap` at most, then a share of it as `jitter` says. `random` is uniform in [0, 1).
 */
export function backoff(
  { base, cap, factor = 2, jitter = [1, 1] }: Backoff,
  failures: number,
  random: () => number = Math.random,
): number {
  return jittered(Math.min(cap, base * factor ** (failures - 1)), jitter, random());
}

/** A share of a wait, so that callers that failed together do not return together. `random` is in [0, 1). */
export function jittered(wait: number, [least, most]: Jitter, random: number): number {
  return wait * (least + (most - least) * random);
}
