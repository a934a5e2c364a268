import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { contract, internalOperations } from "./documented.ts";
import { fuzz } from "./fuzzing.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();

const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));

test("200 random calls get documented responses, none fails, and no refusal changes the database", async () => {
  const report = await fuzz(api, { count: 200, seed });
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.faults).toEqual([]);
  expect(report.calls).toBe(200);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(3);
  expect(report.statuses[400] ?? 0).toBeGreaterThan(20);
}, 300_000);

test("100 random operator calls get documented responses, and no refusal changes the database", async () => {
  const report = await fuzz(api, { count: 100, seed, operations: internalOperations });
  expect(report.faults).toEqual([]);
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(0);
}, 120_000);

test("the fuzzer finds a planted fault", async () => {
  api.vault.failure = new Error("an unexpected error");
  const { faults } = await fuzz(api, {
    // About one call in sixty reaches the vault.
    count: 1_200,
    ...{ seed, most: 1 },
    operations: [contract.operation("create_agent")],
  }).finally(() => {
    api.vault.failure = undefined;
  });
  expect(faults.join()).toContain("status 500");
}, 120_000);
