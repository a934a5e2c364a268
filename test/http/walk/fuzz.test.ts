import { randomInt } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { contract, internalOperations } from "./documented.ts";
import { fuzz } from "./fuzzing.ts";
import { startWholeApi, type WholeApi } from "./world.ts";

let api: WholeApi;

beforeAll(async () => {
  api = await startWholeApi();
});
afterAll(() => api.stop());

const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));

test("1,500 calls drawn from the document: no fault of ours, every answer as documented, nothing changed by a refusal", async () => {
  const report = await fuzz(api, { count: 1_500, seed });
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.faults).toEqual([]);
  expect(report.calls).toBe(1_500);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(30);
  expect(report.statuses[400] ?? 0).toBeGreaterThan(150);
}, 300_000);

test("the operator's own calls, 900 of them, alike", async () => {
  const report = await fuzz(api, { count: 900, seed, operations: internalOperations });
  expect(report.faults).toEqual([]);
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(5);
}, 120_000);

test("a fault that is planted is found", async () => {
  api.vault.failure = new Error("something nobody thought of");
  const { faults } = await fuzz(api, {
    // One call in sixty gets as far as the vault.
    count: 1_200,
    seed,
    operations: [contract.operation("create_agent")],
  }).finally(() => {
    api.vault.failure = undefined;
  });
  expect(faults.join()).toContain("status 500");
}, 120_000);
