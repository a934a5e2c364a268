import { resolve } from "node:path";
import { conformanceFolder, type Mismatch, runConformance, type VectorResult } from "./run.ts";

const SHOWN_CHARACTERS = 200;

/**
 * `npm run conformance [-- folder]`: runs the vectors of a folder and prints the results to `out`. Returns
 * the exit code: 0 if all passed, 1 if a vector failed or none was found, 2 for wrong arguments.
 */
export async function conformance(
  [name, ...others]: readonly string[],
  out: Pick<Console, "log" | "error"> = console,
): Promise<number> {
  if (others.length > 0) {
    out.error("Usage: npm run conformance [-- folder]");
    return 2;
  }
  const folder = name === undefined ? conformanceFolder() : resolve(name);
  const outcomes = await runConformance(folder);
  out.log(`conformance vectors of ${folder}`);
  for (const [kind, results] of Map.groupBy(outcomes, (outcome) => outcome.kind)) {
    for (const line of linesOf(kind, results)) out.log(line);
  }
  const failed = outcomes.filter(hasFailed).length;
  out.log(`${outcomes.length - failed} passed, ${failed} failed`);
  if (outcomes.length === 0) {
    out.error("no vectors were found there: neither v1/*.json nor wire-negative/*.json");
  }
  return failed > 0 || outcomes.length === 0 ? 1 : 0;
}

function linesOf(kind: string, results: VectorResult[]): string[] {
  const failures = results.filter(hasFailed);
  return [
    `  ${kind.padEnd(32)} ${results.length - failures.length}/${results.length}`,
    ...failures.flatMap(({ name, mismatches }) => [`    ${name}`, ...mismatches.map(mismatchText)]),
  ];
}

function mismatchText({ check, expected, got }: Mismatch): string {
  return `      ${check}\n        expected ${shown(expected)}\n        got      ${shown(got)}`;
}

function hasFailed({ mismatches }: VectorResult): boolean {
  return mismatches.length > 0;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}… (${text.length})` : text;
}

if (import.meta.main) process.exitCode = await conformance(process.argv.slice(2));
