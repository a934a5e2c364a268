import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { dialectViolations } from "./support/dialect.ts";
import { proseViolations } from "./support/prose.ts";

const ROOT = join(import.meta.dirname, "..");
/** Excludes migrations from the checks, because landed migrations are never edited. */
const IS_MIGRATION = /\/migrations(\/|\.ts$)/;

test("the English of sources, tests, charts and pages follows the rules that a program can check", () => {
  const paths = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" })
    .split("\n")
    .filter((path) => /\.(ts|mjs|md|ya?ml|tpl|sh)$|Dockerfile$|^\.ci\/run$/.test(path))
    .filter((path) => !IS_MIGRATION.test(path) && path !== "test/dialect.test.ts");
  expect(paths.flatMap((path) => proseViolations(path, readFileSync(join(ROOT, path), "utf8")))).toEqual([]);
});

test("all sources and tests are written in one dialect", () => {
  const paths = globSync(["src/**/*.ts", "keyvault/**/*.ts", "test/**/*.ts"], { cwd: ROOT }).filter(
    (path) => !path.includes("node_modules") && !IS_MIGRATION.test(path) && path !== "test/dialect.test.ts",
  );
  expect(paths.length).toBeGreaterThan(500);
  expect(paths.flatMap((path) => dialectViolations(path, readFileSync(join(ROOT, path), "utf8")))).toEqual(
    [],
  );
});

describe("the check of the dialect finds", () => {
  test.each([
    ["a branch without braces on a line of its own", "if (a)\n  b();"],
    ["another branch without braces", "if (a) {\n  b();\n} else\n  c();"],
    ["a loop without braces", "for (const a of b)\n  c(a);"],
    ["SQL in upper case", "const a = `SELECT id FROM accounts`;"],
    ["a part of SQL in upper case", 'const a = "where a is null ORDER BY a";'],
    ["an operator of SQL in upper case", 'const a = "? IN (a, b)";'],
    ["a tag for what is thrown", "/** A. @throws Error sometimes */\nconst a = 1;"],
    ["a wide comment", `// ${"word ".repeat(22)}\nconst a = 1;`],
  ])("%s", (_, text) => {
    expect(dialectViolations("src/a.ts", text)).toHaveLength(1);
  });

  test.each([
    "if (a) b();",
    "if (a) {\n  b();\n} else if (c) {\n  d();\n}",
    "const a = `select id from accounts where kind = 'SELECT a'`;",
    'const a = "Select a platform";',
    "/** Throws `Error` sometimes. */\nconst a = 1;",
    `// ${"x".repeat(120)}\nconst a = 1;`,
  ])("nothing in %s", (text) => {
    expect(dialectViolations("src/a.ts", text)).toEqual([]);
  });
});

describe("the check of the English finds", () => {
  test.each([
    ["a docstring without a subject", "a.ts", "/** Who signs. */\nconst a = 1;"],
    ["a test name without a subject", "a.ts", 'test("is refused when late", () => {});'],
    ["a test name in a table without a subject", "a.ts", 'describe.each([1])("what %s does", () => {});'],
    ["a row of a table without a subject", "a.ts", 'test.each([["is late", 1]])("%s", () => {});'],
    ["a phrase in a comment", "a.ts", "// It leads no\n// more.\nconst a = 1;"],
    ["a phrase in a message", "a.ts", 'throw new Error("The person is told");'],
    ["a phrase in YAML", "a.yaml", 'description: "stops at once"'],
    ["a phrase on a page", "a.md", "It runs by itself."],
    ["a long sentence in a comment", "a.ts", `// A${" word".repeat(35)}.\nconst a = 1;`],
    ["a long sentence on a page", "a.md", `- A list.\n- A${" word".repeat(35)}.`],
    ["a long sentence in a table", "a.md", `| a | A${" word".repeat(35)}. |`],
    ["a long sentence in a template", "a.tpl", `# A${" word".repeat(20)}\n#${" word".repeat(15)}.`],
  ])("%s", (_, path, text) => {
    expect(proseViolations(path, text)).toHaveLength(1);
  });

  test.each([
    ["a.ts", "/** Signs what a vault gave out. */\nconst a = 1;"],
    ["a.ts", `// A${" word".repeat(34)}. Another${" word".repeat(34)}.\nconst a = 1;`],
    ["a.ts", `// A list:\n// - a${" word".repeat(20)}\n// - b${" word".repeat(20)}\nconst a = 1;`],
    ["a.ts", 'const name = "who"; list("is it");'],
    ["a.ts", 'test.each([["is late", 1]])("a call that %s", () => {});'],
    ["a.md", "```\nstops at once\n```"],
    ["a.md", `See [a](b.md) and \`${"code ".repeat(40)}\`.`],
    ["a.yaml", `a: ${"word ".repeat(40)}`],
  ])("nothing in a file like %s with the content %s", (path, text) => {
    expect(proseViolations(path, text)).toEqual([]);
  });
});
