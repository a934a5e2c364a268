/** Returns the median, for an even count the upper of the two middle values, or NaN if there are none. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** A figure's value in each round. The rounds of all figures alternate. */
export type Figure = { name: string; unit: string; values: readonly number[] };

/** Target for a ratio. */
export type Aim = { atMost: number } | { atLeast: number };

/** The ratio of two figures in each round, so that other load on the machine affects both figures. */
export type Ratio = { name: string; over: string; under: string; aim?: Aim };

/** The figures and ratios of a bench. */
export type Report = { figures: readonly Figure[]; ratios?: readonly Ratio[] };

export type Spread = { median: number; lowest: number; highest: number; rounds: number };

/** A ratio over its rounds. `met` is undefined if the ratio has no aim. */
export type RatioSeen = Spread & { name: string; aim: Aim | undefined; met: boolean | undefined };

/** Returns the spread of the values. Throws if there are none, or if a value is not a finite number. */
export function spreadOf(name: string, values: readonly number[]): Spread {
  if (values.length === 0 || !values.every(Number.isFinite)) throw new Error(`${name}: was not measured`);
  return {
    median: median(values),
    lowest: Math.min(...values),
    highest: Math.max(...values),
    rounds: values.length,
  };
}

/** Throws if a ratio names a missing figure, or figures with different numbers of rounds. */
export function ratiosSeen({ figures, ratios = [] }: Report): RatioSeen[] {
  const byName = new Map(figures.map(({ name, values }) => [name, values]));
  const valuesOf = (name: string): readonly number[] => {
    const values = byName.get(name);
    if (values === undefined) throw new Error(`no figure is named "${name}"`);
    return values;
  };
  return ratios.map(({ name, over, under, aim }) => {
    const [dividends, divisors] = [valuesOf(over), valuesOf(under)];
    if (dividends.length !== divisors.length) throw new Error(`${name}: the figures have different rounds`);
    const spread = spreadOf(
      name,
      dividends.map((value, round) => value / (divisors[round] ?? Number.NaN)),
    );
    return { name, ...spread, aim, met: aim && isMet(aim, spread.median) };
  });
}

function isMet(aim: Aim, value: number): boolean {
  return "atMost" in aim ? value <= aim.atMost : value >= aim.atLeast;
}
