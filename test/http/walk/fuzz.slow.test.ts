import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { roundBudget } from "../../support/round_budget.ts";
import { internalOperations } from "./documented.ts";
import { fuzz } from "./fuzzing.ts";
import { startWholeApi } from "./world.ts";

test("20,000 calls drawn from the document find no fault, or as many as FUZZ_SECONDS have", async () => {
  const api = await startWholeApi();
  const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));
  const isWanted = roundBudget("FUZZ_SECONDS", { fewest: 5_000, most: 20_000 });
  const report = await fuzz(api, { count: 20_000, seed, isWanted });
  const internal = await fuzz(api, { count: 4_000, seed, operations: internalOperations });
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify([report.statuses, internal.statuses])}`);
  await api.stop();
  expect([...report.faults, ...internal.faults]).toEqual([]);
}, 1_800_000);
