import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { conformanceFolder, runConformance } from "./run.ts";

const folder = conformanceFolder();
const isThere = existsSync(folder);
if (!isThere) console.warn(`NO CONFORMANCE VECTORS at ${folder}: name their folder in CONFORMANCE_VECTORS`);

test.skipIf(!isThere)("the project passes every published vector", async () => {
  const outcomes = await runConformance(folder);
  const failed = outcomes.filter(({ mismatches }) => mismatches.length > 0);
  expect(failed).toEqual([]);
  expect(outcomes.length).toBeGreaterThan(0);
});
