// Adds up the results of .ci/run in a folder: `<name>.status` of each suite or check, and `<name>.json` of
// each suite (see report.mjs). Prints failed and skipped tests, and the first lines of the failures' messages.
// The last line is "N passed, N failed". Exits with 0 only if nothing failed and nothing was skipped.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";

const LINES = 12;
const WIDTH = 300;

const folder = process.argv[2];
const sum = { passed: 0, failed: 0, skipped: 0 };
let complaints = 0;

function complain(line) {
  complaints += 1;
  console.log(line);
}

/** Returns the first lines of each message without colors. They show at the end of the output why tests failed. */
function beginningsOf(messages) {
  const lines = messages.flatMap((message) => stripVTControlCharacters(message).split("\n").slice(0, LINES));
  return lines.map((line) => `\n    ${line.slice(0, WIDTH)}`).join("");
}

function addSuite(name, status) {
  const { passed, failed, skipped } = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"));
  sum.passed += passed;
  sum.failed += failed.length;
  sum.skipped += skipped.length;
  for (const test of skipped) complain(`skipped: ${name}: ${test}`);
  for (const { name: test, messages } of failed) complain(`failed: ${name}: ${test}${beginningsOf(messages)}`);
  if (status !== 0 && failed.length === 0) {
    sum.failed += 1;
    complain(`failed: ${name} ended with status ${status}`);
  }
  if (passed + failed.length + skipped.length === 0) {
    complain(`${name} has no tests`);
  }
}

function addCheck(name, status) {
  sum[status === 0 ? "passed" : "failed"] += 1;
  if (status !== 0) {
    complain(`failed: ${name} ended with status ${status}`);
  }
}

const names = readdirSync(folder).filter((file) => file.endsWith(".status"));
for (const name of names.map((file) => file.slice(0, -".status".length))) {
  const status = Number(readFileSync(join(folder, `${name}.status`), "utf8"));
  if (existsSync(join(folder, `${name}.json`))) {
    addSuite(name, status);
  } else {
    addCheck(name, status);
  }
}
if (sum.skipped > 0) {
  console.log("Tests are skipped if a component that they need is missing. In CI that is a failure.");
}
console.log(`${sum.passed} passed, ${sum.failed} failed${sum.skipped > 0 ? `, ${sum.skipped} skipped` : ""}`);
process.exitCode = complaints === 0 && names.length > 0 ? 0 : 1;
