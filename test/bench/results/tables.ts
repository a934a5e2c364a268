import { type Column, table } from "../../../src/plugin/text.ts";
import {
  type Aim,
  type Figure,
  type RatioSeen,
  type Report,
  ratiosSeen,
  type Spread,
  spreadOf,
} from "./figures.ts";

const AS_WIDE_AS_NEEDED = Number.POSITIVE_INFINITY;
const FIGURES: Column<Spread & Pick<Figure, "name" | "unit">>[] = [
  { heading: "", of: ({ name }) => name },
  ...spreadColumns(),
  { heading: "", of: ({ unit }) => unit },
];
const RATIOS: Column<RatioSeen>[] = [
  { heading: "ratio", of: ({ name }) => name },
  ...spreadColumns(),
  { heading: "aim", of: ({ aim }) => (aim === undefined ? "" : aimInWords(aim)) },
  { heading: "met", of: ({ met }) => (met === undefined ? "" : met ? "yes" : "NO") },
];

/**
 * A report as text: a table of figures, then one of ratios where there are some. Throws for what was not
 * measured.
 */
export function tablesOf(report: Report): string {
  const figures = report.figures.map((figure) => ({ ...figure, ...spreadOf(figure.name, figure.values) }));
  const ratios = ratiosSeen(report);
  const shownFigures = table(figures, FIGURES, AS_WIDE_AS_NEEDED);
  return ratios.length === 0 ? shownFigures : `${shownFigures}\n${table(ratios, RATIOS, AS_WIDE_AS_NEEDED)}`;
}

function spreadColumns(): Column<Spread>[] {
  return (["median", "lowest", "highest"] as const).map((heading) => ({
    heading,
    of: (spread) => shown(spread[heading]),
    isNumber: true,
  }));
}

/** An aim in words, as in "at most 2.5". */
function aimInWords(aim: Aim): string {
  return "atMost" in aim ? `at most ${aim.atMost}` : `at least ${aim.atLeast}`;
}

/** A number with three digits that say something; whole from 100 on. */
export function shown(value: number): string {
  if (value === 0) return "0";
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 4) });
}

/**
 * Tells what a bench found out: to the process that runs the benches, which keeps it; a bench that is run by
 * itself prints it. Throws for what was not measured.
 */
export function report(found: Report): void {
  const tables = tablesOf(found);
  if (process.env.BENCH_REPORTS === undefined) {
    console.log(tables);
  } else {
    process.send?.(found);
  }
}
