import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = new URL("../", import.meta.url);
const page = readFileSync(fileURLToPath(new URL("docs/security.md", root)), "utf8");

/** The tests that the page names: `12. \`test/…\`: title`. */
const named = [...page.matchAll(/^(\d+)\. `([^`]+)`: (.+)$/gm)].map(([, number, file, title]) => ({
  number: Number(number),
  file: file ?? "",
  title: title ?? "",
}));

/** The cells of the table of powers and promises, without its head. */
const cells = page
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| somebody has"))
  .flatMap((line) => line.split("|").slice(2, -1));

describe("the page on security", () => {
  test.each(named)("names a test that there is: $number, $title", ({ file, title }) => {
    const text = readFileSync(fileURLToPath(new URL(file, root)), "utf8");
    expect(text).toContain(title);
  });

  test("numbers its tests one by one, and uses every one", () => {
    expect(named.length).toBeGreaterThan(50);
    expect(named.map(({ number }) => number)).toEqual(named.map((_, index) => index + 1));
    const used = cells.flatMap((cell) => cell.match(/\d+/g) ?? []).map(Number);
    expect([...new Set(used)].sort((a, b) => a - b)).toEqual(named.map(({ number }) => number));
  });

  test("promises nothing without a test: a cell has one, or a dash, or says what does not hold", () => {
    expect(cells.length).toBeGreaterThan(40);
    for (const cell of cells) expect(cell.trim()).toMatch(/^(–|.*\d.*|[a-z].* .*)$/);
  });
});
