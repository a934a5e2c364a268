/** The middle of some figures, the upper one of two; not a number when there are none. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** What was measured in each round, in turns with the other figures of the bench. */
export type Figure = { name: string; unit: string; values: readonly number[] };

/** What a ratio is to be. */
export type Aim = { atMost: number } | { atLeast: number };

/**
 * One figure over another, taken round by round, so that a machine that is busy for a while spoils neither.
 */
export type Ratio = { name: string; over: string; under: string; aim?: Aim };

/** All that a bench found out. */
export type Report = { figures: readonly Figure[]; ratios?: readonly Ratio[] };

/** The middle of some rounds, and how far they lie apart. */
export type Spread = { median: number; lowest: number; highest: number; rounds: number };

/** A ratio over its rounds; `met` says nothing where it has no aim. */
export type RatioSeen = Spread & { name: string; aim: Aim | undefined; met: boolean | undefined };

/** The spread of some values. Throws when there are none: a bench that measured nothing has not succeeded. */
export function spreadOf(name: string, values: readonly number[]): Spread {
  if (values.length === 0 || !values.every(Number.isFinite)) throw new Error(`${name}: was not measured`);
  return {
    median: median(values),
    lowest: Math.min(...values),
    highest: Math.max(...values),
    rounds: values.length,
  };
}

/**
 * The ratios of a report. Throws when one names a figure that the report has not, or that has other rounds.
 */
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
