import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = new URL("../", import.meta.url);
const page = readFileSync(fileURLToPath(new URL("docs/security.md", root)), "utf8");

/** The tests that the page names, in lines such as `12. \`test/…\`: title`. */
const named = [...page.matchAll(/^(\d+)\. `([^`]+)`: (.+)$/gm)].map(([, number, file, title]) => ({
  number: Number(number),
  file: file ?? "",
  title: title ?? "",
}));

const linked = [...page.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, path]) => path ?? "");

/** Cells of the table of the vault's powers and guarantees, without the header row. */
const cells = page
  .slice(page.indexOf("| somebody has"))
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| somebody has"))
  .flatMap((line) => line.split("|").slice(2, -1));

describe("the security page", () => {
  test.each(named)("names an existing test: $number, $title", ({ file, title }) => {
    const text = readFileSync(fileURLToPath(new URL(file, root)), "utf8");
    expect(text).toContain(title);
  });

  test.each([...new Set(linked)])("links to an existing file: %s", (path) => {
    expect(existsSync(fileURLToPath(new URL(path, new URL("docs/", root))))).toBe(true);
  });

  test.each(["test/http", "test/keyvault"])("names every attack test in %s", (folder) => {
    const attacks = readdirSync(fileURLToPath(new URL(folder, root))).filter((name) =>
      name.startsWith("red_team"),
    );
    expect(attacks.length).toBeGreaterThan(3);
    expect(attacks.filter((name) => !page.includes(`${folder}/${name}`))).toEqual([]);
  });

  test("numbers its tests consecutively, and refers to every one", () => {
    expect(named.length).toBeGreaterThan(30);
    expect(named.map(({ number }) => number)).toEqual(named.map((_, index) => index + 1));
    const used = cells.flatMap((cell) => cell.match(/\d+/g) ?? []).map(Number);
    expect([...new Set(used)].sort((a, b) => a - b)).toEqual(named.map(({ number }) => number));
  });

  test("has in each cell a test's number, a dash, or a sentence about a missing guarantee", () => {
    expect(cells.length).toBeGreaterThan(30);
    for (const cell of cells) expect(cell.trim()).toMatch(/^(–|.*\d.*|[a-z].* .*)$/);
  });
});
