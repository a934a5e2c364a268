import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { internalOperations } from "./documented.ts";
import { fuzz } from "./fuzzing.ts";
import { startWholeApi } from "./world.ts";

test("20,000 random calls, and 4,000 operator calls, reveal no fault", async () => {
  const api = await startWholeApi();
  const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));
  const report = await fuzz(api, { count: 20_000, seed });
  const internal = await fuzz(api, { count: 4_000, seed, operations: internalOperations });
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify([report.statuses, internal.statuses])}`);
  await api.stop();
  expect([...report.faults, ...internal.faults]).toEqual([]);
}, 1_800_000);
