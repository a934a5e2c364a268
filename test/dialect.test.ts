import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { dialectViolations } from "./support/dialect.ts";

const ROOT = join(import.meta.dirname, "..");
/** Landed migrations are never edited. */
const IS_MIGRATION = /\/migrations(\/\d|\.ts$)/;

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
