import { resolve } from "node:path";
import { expect, test } from "vitest";
import { readFolder, readPort } from "../../src/dev/options.ts";
import { Problem } from "../../src/dev/problem.ts";

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(Problem);
    return (error as Problem).message;
  }
  return "taken";
}

test.each([
  ["0", 0],
  ["1", 1],
  ["8080", 8080],
  ["65535", 65_535],
])("--port %s is a port", (text, port) => {
  expect(readPort(text)).toBe(port);
});

test.each(["", " ", "65536", "100000", "-1", "80.5", "1e3", "0x50", "80 ", "http"])(
  "--port %j is refused",
  (text) => {
    expect(refusal(() => readPort(text))).toBe(`--port ${JSON.stringify(text)} is not a port`);
  },
);

test("an option in the place of a value is named as what it is", () => {
  expect(refusal(() => readPort("--once"))).toBe("--port has no value: --once follows it");
  expect(refusal(() => readFolder("--once"))).toBe("--data has no value: --once follows it");
});

test("a folder is taken from where the command was typed", () => {
  expect(readFolder("some/where")).toBe(resolve("some/where"));
  expect(readFolder("/some/where")).toBe("/some/where");
  expect(refusal(() => readFolder(""))).toBe("--data needs a folder");
});
