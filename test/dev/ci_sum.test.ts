import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const WHY = `\u001b[31mError: too few\u001b[39m\n${Array.from({ length: 30 }, (_, n) => `line ${n}`).join("\n")}`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-sum-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function check(name: string, status: number): Promise<void> {
  await writeFile(join(folder, `${name}.status`), `${status}\n`);
}

async function suite(name: string, status: number, outcomes: string[], file = "passed"): Promise<void> {
  const assertionResults = outcomes.map((outcome, index) => ({
    ...{ fullName: `test ${index}`, status: outcome },
    failureMessages: outcome === "failed" ? [WHY] : [],
  }));
  const testResults = [{ name: "a.test.ts", status: file, message: "no such module", assertionResults }];
  await check(name, status);
  await writeFile(join(folder, `${name}.json`), JSON.stringify({ testResults }));
}

function sum(): { status: number | null; last: string; said: string } {
  const script = join(import.meta.dirname, "../../.ci/sum.mjs");
  const { status, stdout } = spawnSync(process.execPath, [script, folder], { encoding: "utf8" });
  return { status, last: stdout.trimEnd().split("\n").at(-1) ?? "", said: stdout };
}

test("the CI summary adds up suites and checks, and exits with 0 if all passed", async () => {
  await suite("tests", 0, ["passed", "passed"]);
  await suite("slow", 0, ["passed"]);
  await check("types", 0);
  expect(sum()).toMatchObject({ status: 0, last: "4 passed, 0 failed" });
});

test("the CI summary fails after a failed test and prints its name and the start of its message", async () => {
  await suite("tests", 1, ["passed", "failed"]);
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
  expect(sum().said).toContain("failed: tests: test 1\n    Error: too few\n    line 0\n");
  expect(sum().said).not.toContain("line 20");
});

test.each(["skipped", "pending", "todo", "disabled"])(
  "the CI summary fails after a test with the state %s",
  async (outcome) => {
    await suite("tests", 0, ["passed", outcome]);
    expect(sum()).toMatchObject({ status: 1, last: "1 passed, 0 failed, 1 skipped" });
  },
);

test("the CI summary fails after a failed check", async () => {
  await suite("tests", 0, ["passed"]);
  await check("types", 2);
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
});

test("the CI summary fails after a test file that could not be loaded", async () => {
  await suite("tests", 1, [], "failed");
  expect(sum()).toMatchObject({ status: 1, last: "0 passed, 1 failed" });
  expect(sum().said).toContain("no such module");
});

test("the CI summary fails if a suite's tests passed but its exit status is not 0", async () => {
  await suite("tests", 1, ["passed"]);
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
});

test("the CI summary fails after a suite that ended without a report", async () => {
  await check("tests", 137);
  expect(sum()).toMatchObject({ status: 1, last: "0 passed, 1 failed" });
});

test("the CI summary fails if a suite has no tests, or if there is no suite", async () => {
  expect(sum()).toMatchObject({ status: 1, last: "0 passed, 0 failed" });
  await check("types", 0);
  await writeFile(join(folder, "tests.status"), "0\n");
  await writeFile(join(folder, "tests.json"), '{"testResults":[]}');
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 0 failed" });
});
