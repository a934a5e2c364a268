import { existsSync, readdirSync, readFileSync } from "node:fs";
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

/** The files that the page leads to. */
const linked = [...page.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, path]) => path ?? "");

/** The cells of the vault's table of powers and promises, without its head. */
const cells = page
  .slice(page.indexOf("| somebody has"))
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| somebody has"))
  .flatMap((line) => line.split("|").slice(2, -1));

describe("the page on security", () => {
  test.each(named)("names a test that there is: $number, $title", ({ file, title }) => {
    const text = readFileSync(fileURLToPath(new URL(file, root)), "utf8");
    expect(text).toContain(title);
  });

  test.each([...new Set(linked)])("leads to a file that there is: %s", (path) => {
    expect(existsSync(fileURLToPath(new URL(path, new URL("docs/", root))))).toBe(true);
  });

  test.each(["test/http", "test/keyvault"])("names every attack in %s that is a test", (folder) => {
    const attacks = readdirSync(fileURLToPath(new URL(folder, root))).filter((name) =>
      name.startsWith("red_team"),
    );
    expect(attacks.length).toBeGreaterThan(3);
    expect(attacks.filter((name) => !page.includes(`${folder}/${name}`))).toEqual([]);
  });

  test("numbers its tests one by one, and uses every one", () => {
    expect(named.length).toBeGreaterThan(30);
    expect(named.map(({ number }) => number)).toEqual(named.map((_, index) => index + 1));
    const used = cells.flatMap((cell) => cell.match(/\d+/g) ?? []).map(Number);
    expect([...new Set(used)].sort((a, b) => a - b)).toEqual(named.map(({ number }) => number));
  });

  test("promises nothing without a test: a cell has one, or a dash, or says what does not hold", () => {
    expect(cells.length).toBeGreaterThan(30);
    for (const cell of cells) expect(cell.trim()).toMatch(/^(–|.*\d.*|[a-z].* .*)$/);
  });
});
