import type { Report } from "./figures.ts";
import { tablesOf } from "./tables.ts";

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
