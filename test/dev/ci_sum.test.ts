import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const reporter = join(root, ".ci/report.mjs");

const WHY = `\u001b[31mError: too few\u001b[39m\n${Array.from({ length: 30 }, (_, n) => `line ${n}`).join("\n")}`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-sum-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function check(name: string, status: number): Promise<void> {
  await writeFile(join(folder, `${name}.status`), `${status}\n`);
}

type Report = { passed: number; failed?: { name: string; messages: string[] }[]; skipped?: string[] };

async function suite(name: string, status: number, report: Report): Promise<void> {
  await check(name, status);
  await writeFile(join(folder, `${name}.json`), JSON.stringify({ failed: [], skipped: [], ...report }));
}

/** Runs the test file with the text in vitest. Returns the report. */
async function reportOf(text: string): Promise<unknown> {
  await writeFile(join(folder, "a.test.mjs"), `import { beforeAll, describe, test } from "vitest";\n${text}`);
  const REPORT = join(folder, "tests.json");
  const { stderr } = spawnSync(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", folder, `--reporter=${reporter}`],
    {
      cwd: root,
      env: { ...process.env, REPORT, VITEST: undefined, NODE_OPTIONS: undefined },
      encoding: "utf8",
    },
  );
  return JSON.parse(await readFile(REPORT, "utf8").catch(() => JSON.stringify(stderr)));
}

function sum(): { status: number | null; last: string; said: string } {
  const script = join(root, ".ci/sum.mjs");
  const { status, stdout } = spawnSync(process.execPath, [script, folder], { encoding: "utf8" });
  return { status, last: stdout.trimEnd().split("\n").at(-1) ?? "", said: stdout };
}

test("the CI summary adds up suites and checks, and exits with 0 if all passed", async () => {
  await suite("tests", 0, { passed: 2 });
  await suite("slow", 0, { passed: 1 });
  await check("types", 0);
  expect(sum()).toMatchObject({ status: 0, last: "4 passed, 0 failed" });
});

test("the CI summary fails after a failed test and prints its name and the start of its message", async () => {
  await suite("tests", 1, { passed: 1, failed: [{ name: "test 1", messages: [WHY] }] });
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
  expect(sum().said).toContain("failed: tests: test 1\n    Error: too few\n    line 0\n");
  expect(sum().said).not.toContain("line 20");
});

test("the CI summary fails after a skipped test and prints its name", async () => {
  await suite("tests", 0, { passed: 1, skipped: ["test 2"] });
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 0 failed, 1 skipped" });
  expect(sum().said).toContain("skipped: tests: test 2\n");
});

test("the CI summary fails after a failed check", async () => {
  await suite("tests", 0, { passed: 1 });
  await check("types", 2);
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
});

test("the CI summary fails if a suite's tests passed but its exit status is not 0", async () => {
  await suite("tests", 1, { passed: 1 });
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 1 failed" });
});

test("the CI summary fails after a suite that ended without a report", async () => {
  await check("tests", 137);
  expect(sum()).toMatchObject({ status: 1, last: "0 passed, 1 failed" });
});

test("the CI summary fails if a suite has no tests, or if there is no suite", async () => {
  expect(sum()).toMatchObject({ status: 1, last: "0 passed, 0 failed" });
  await check("types", 0);
  await suite("tests", 0, { passed: 0 });
  expect(sum()).toMatchObject({ status: 1, last: "1 passed, 0 failed" });
});

test("the CI report names passed, failed and skipped tests", async () => {
  const report = await reportOf(`
    describe("a group", () => {
      test("passes", () => {});
      test("fails", () => { throw new Error("too few"); });
      test.skip("is skipped", () => {});
    });`);
  expect(report).toMatchObject({
    passed: 1,
    failed: [{ name: "a group > fails", messages: [expect.stringContaining("Error: too few\n")] }],
    skipped: ["a group > is skipped"],
  });
});

test.each([
  ["a group", "a group", `describe("a group", () => { beforeAll(HOOK); test("waits", () => {}); });`],
  ["a test file", "a.test.mjs", `beforeAll(HOOK); test("waits", () => {});`],
])("the CI report says why the hook of %s failed", async (_, name, text) => {
  const hook = `() => { throw new Error("no server"); }`;
  expect(await reportOf(text.replace("HOOK", hook))).toMatchObject({
    failed: [{ name: `${name} as a whole`, messages: [expect.stringContaining("no server")] }],
    skipped: [expect.stringContaining("waits")],
  });
});

test.each([
  ["a test file that cannot be loaded", `import "./missing.mjs";`, "a.test.mjs as a whole", "missing.mjs"],
  [
    "a rejection that nothing handled",
    `test("ends", () => { Promise.reject(new Error("left alone")); });`,
    "outside of the tests",
    "left alone",
  ],
])("the CI report names %s", async (_, text, name, message) => {
  expect(await reportOf(text)).toMatchObject({
    failed: [{ name, messages: [expect.stringContaining(message)] }],
  });
});
