export type Percentiles = { p50: number; p99: number };

/** Returns the milliseconds of each of the `count` runs, of which `concurrency` run at a time. */
export async function times(
  count: number,
  concurrency: number,
  work: (run: number) => Promise<unknown>,
): Promise<number[]> {
  const durations: number[] = [];
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started < count) {
      const run = started++;
      const start = performance.now();
      await work(run);
      durations.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return durations;
}

/**
 * Runs each of `works` in turn, `rounds` times, so that other load on the machine affects all of them.
 * Returns the milliseconds of each run.
 */
export async function inTurns<Name extends string>(
  rounds: number,
  works: Record<Name, (round: number) => Promise<unknown>>,
): Promise<Record<Name, number[]>> {
  const entries = Object.entries(works) as [Name, (round: number) => Promise<unknown>][];
  const taken = Object.fromEntries(entries.map(([name]) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, work] of entries) taken[name].push(...(await times(1, 1, () => work(round))));
  }
  return taken;
}

/** Returns the percentiles of the durations, or NaN for an empty list. */
export function percentiles(durations: readonly number[]): Percentiles {
  return { p50: percentile(durations, 0.5), p99: percentile(durations, 0.99) };
}

/** Returns the smallest value that the given share of the values does not exceed, or NaN for no values. */
export function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? Number.NaN;
}
