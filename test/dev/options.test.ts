import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readAliases, readCredits, readFolder, readPort } from "../../src/dev/options.ts";
import { UserError } from "../../src/dev/user_error.ts";

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as UserError).message;
  }
  return "taken";
}

test.each([
  ["0", 0],
  ["1", 1],
  ["8080", 8080],
  ["65535", 65_535],
])("the option --port accepts %s", (text, port) => {
  expect(readPort(text)).toBe(port);
});

test.each(["", " ", "--once", "65536", "100000", "-1", "80.5", "1e3", "0x50", "80 ", "http"])(
  "the option --port rejects %j",
  (text) => {
    expect(refusal(() => readPort(text))).toBe(`--port ${JSON.stringify(text)} is not a port`);
  },
);

test("the option --alias accepts several aliases, repeated or separated by commas", () => {
  expect(readAliases([])).toEqual([]);
  expect(readAliases(["ratify"])).toEqual(["ratify"]);
  expect(readAliases(["ratify", "a, b2", "ratify"])).toEqual(["ratify", "a", "b2"]);
  expect(readAliases([`a${"b".repeat(31)}`])).toHaveLength(1);
});

test.each(["", " ", "Ratify", "2nd", "two words", "a-b", "a_b", "é", "a/b", `a${"b".repeat(32)}`])(
  "the option --alias rejects %j",
  (text) => {
    const said = `--alias ${JSON.stringify(text.trim())} is not valid: use `;
    expect(refusal(() => readAliases(["ratify", text]))).toContain(said);
    expect(refusal(() => readAliases([`ratify,${text}`]))).toContain(said);
  },
);

test("deputize dev rejects an invalid alias with one line before it starts or creates anything", async () => {
  const folder = join(tmpdir(), `deputize-alias-${process.pid}`);
  const program = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const args = [program, "dev", "--alias", "ratify", "--alias", "Shop", "--data", folder];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toMatch(/^--alias "Shop" is not valid: use .*\n$/);
  expect(existsSync(folder)).toBe(false);
});

test("a relative data folder is resolved from the current folder", () => {
  expect(readFolder("some/where")).toBe(resolve("some/where"));
  expect(readFolder("/some/where")).toBe("/some/where");
  for (const text of ["", "--once"]) expect(refusal(() => readFolder(text))).toBe("--data needs a folder");
});

test("the option --credits accepts only an amount of US dollars", () => {
  expect(readCredits("50")).toBe(50_000_000);
  expect(readCredits("0.002")).toBe(2_000);
  expect(refusal(() => readCredits("0"))).toContain('--credits "0" is not a number of US dollars above 0');
  expect(refusal(() => readCredits("ten"))).toContain('--credits "ten" is not');
});
