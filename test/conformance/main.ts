import { resolve } from "node:path";
import { conformanceFolder, type Mismatch, runConformance, type VectorResult } from "./run.ts";

/**
 * `npm run conformance [-- folder]`. Ends with 1 when a vector failed or none was found, with 2 when it is
 * called wrongly.
 */
const SHOWN_CHARACTERS = 200;

if (process.argv.length > 3) {
  console.error("Usage: npm run conformance [-- folder]");
  process.exit(2);
}
const folder = process.argv[2] === undefined ? conformanceFolder() : resolve(process.argv[2]);
const outcomes = await runConformance(folder);
console.log(`conformance vectors of ${folder}`);
for (const [kind, results] of Map.groupBy(outcomes, (outcome) => outcome.kind)) printKind(kind, results);
const failed = outcomes.filter(hasFailed).length;
console.log(`${outcomes.length - failed} passed, ${failed} failed`);
if (outcomes.length === 0) {
  console.error("no vectors were found there: neither v1/*.json nor wire-negative/*.json");
}
process.exitCode = failed > 0 || outcomes.length === 0 ? 1 : 0;

function printKind(kind: string, results: VectorResult[]): void {
  const failures = results.filter(hasFailed);
  console.log(`  ${kind.padEnd(32)} ${results.length - failures.length}/${results.length}`);
  for (const { name, mismatches } of failures) {
    console.log(`    ${name}`);
    for (const mismatch of mismatches) printMismatch(mismatch);
  }
}

function printMismatch({ check, expected, got }: Mismatch): void {
  console.log(`      ${check}\n        expected ${shown(expected)}\n        got      ${shown(got)}`);
}

function hasFailed({ mismatches }: VectorResult): boolean {
  return mismatches.length > 0;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}… (${text.length})` : text;
}
