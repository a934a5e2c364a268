import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const CONSOLE = join(import.meta.dirname, "../../src/console");
const SHEETS = globSync(join(CONSOLE, "style/*.css"));
const SOURCES = globSync(join(CONSOLE, "{core,elements,pages}/**/*.ts"));

/** Classes that pages compose or scripts add. Each must be a word in the named file. */
const MADE: Record<string, readonly string[]> = {
  "elements/values.ts": ["badge", "good", "warn", "bad", "plain"],
  "elements/form.ts": ["primary", "quiet", "danger"],
  "elements/decisions.ts": ["allow", "deny", "indeterminate"],
  "core/layout.ts": ["credit-banner"],
  "scripts/c_session.js": ["on", "off"],
};
const ENDS_IN = Array.from({ length: 14 }, (_, minutes) => `ends-in-${minutes}`);
/** Classes without a source file: htmx adds the first, and the API names the second as a credit level. */
const NAMED_ELSEWHERE = ["htmx-request", "exhausted"];
/** Classes without a style rule: their elements look like the elements around them. */
const WITHOUT_RULE = ["grant", "plain", "primary"];

test("the style sheets have rules for exactly the classes that pages use", () => {
  const styled = new Set(SHEETS.flatMap((file) => classesOf(readFileSync(file, "utf8"))));
  const written = SOURCES.flatMap((file) => {
    const text = readFileSync(file, "utf8");
    const whole = [...text.matchAll(/\bclass(?:=|: )"([^"]+)"/g)];
    const chosen = [...text.matchAll(/\bclass=\$\{([^}]+)\}/g)].flatMap(([, code = ""]) => [
      ...code.matchAll(/"([^"]+)"/g),
    ]);
    return [...whole, ...chosen].flatMap(([, classes = ""]) => classes.split(/\s+/));
  });
  const made = Object.entries(MADE).flatMap(([file, classes]) => {
    const words = new Set(readFileSync(join(CONSOLE, file), "utf8").match(/[\w-]+/g));
    expect([file, classes.filter((each) => !words.has(each))]).toEqual([file, []]);
    return classes;
  });
  const used = new Set([
    ...written.filter((each) => !each.includes("${")),
    ...made,
    ...ENDS_IN,
    ...NAMED_ELSEWHERE,
  ]);
  expect([...styled].filter((each) => !used.has(each))).toEqual([]);
  expect([...used].filter((each) => !styled.has(each)).sort()).toEqual([...WITHOUT_RULE].sort());
});

function classesOf(sheet: string): string[] {
  const selectors = sheet.replaceAll(/\/\*.*?\*\//gs, "").match(/[^{}]+(?=\{)/g) ?? [];
  return selectors.flatMap((selector) =>
    [...selector.matchAll(/\.([a-z][\w-]*)/g)].map(([, name = ""]) => name),
  );
}
