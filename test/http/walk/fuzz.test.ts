import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { contract, internalOperations } from "./documented.ts";
import { fuzz } from "./fuzzing.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();

const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));

test("600 calls from the document get documented answers, none fails, and no refusal changes the database", async () => {
  const report = await fuzz(api, { count: 600, seed });
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.faults).toEqual([]);
  expect(report.calls).toBe(600);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(10);
  expect(report.statuses[400] ?? 0).toBeGreaterThan(60);
}, 300_000);

test("so do 300 of the operator's calls", async () => {
  const report = await fuzz(api, { count: 300, seed, operations: internalOperations });
  expect(report.faults).toEqual([]);
  console.info(`fuzzed under FUZZ_SEED=${seed}: ${JSON.stringify(report.statuses)}`);
  expect(report.statuses[200] ?? 0).toBeGreaterThan(0);
}, 120_000);

test("finds a fault that is planted", async () => {
  api.vault.failure = new Error("something nobody thought of");
  const { faults } = await fuzz(api, {
    // One call in sixty gets as far as the vault.
    count: 1_200,
    ...{ seed, most: 1 },
    operations: [contract.operation("create_agent")],
  }).finally(() => {
    api.vault.failure = undefined;
  });
  expect(faults.join()).toContain("status 500");
}, 120_000);
