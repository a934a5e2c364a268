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

/** Formats a report as a table of figures and a table of ratios. Throws if a figure was not measured. */
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

function aimInWords(aim: Aim): string {
  return "atMost" in aim ? `at most ${aim.atMost}` : `at least ${aim.atLeast}`;
}

/** Formats a number with three significant digits. Numbers from 100 on have no decimals. */
export function shown(value: number): string {
  if (value === 0) return "0";
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 4) });
}

/**
 * Sends a report to the process that runs the benches, or prints it if the bench runs alone. Throws if a
 * figure was not measured.
 */
export function report(found: Report): void {
  const tables = tablesOf(found);
  if (process.env.BENCH_REPORTS === undefined) {
    console.log(tables);
  } else {
    process.send?.(found);
  }
}
