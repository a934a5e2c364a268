import { expect, test } from "vitest";
import { icon, iconOf } from "../../src/console/core/icons.ts";
import { consolePages } from "../../src/console/pages.ts";

test("every entry of the navigation has an icon of its own", () => {
  const entries = consolePages.filter(({ navigation }) => navigation !== undefined);
  const drawn = entries.map(({ id }) => String(iconOf(id)));
  expect(drawn.filter((svg) => !svg.startsWith("<svg "))).toEqual([]);
  expect(new Set(drawn).size).toBe(entries.length);
});

test("an icon has only shapes, hides from screen readers and takes the color of its text", () => {
  const svg = String(icon("add"));
  expect(svg).toMatch(
    /^<svg class="icon" viewBox="0 0 20 20" [^>]*aria-hidden="true">(<path [^>]*><\/path>)+<\/svg>$/,
  );
  expect(svg).not.toMatch(/style|fill="/);
  expect(String(icon("add"))).toBe(svg);
});

test("a page that is not in the navigation has no icon", () => {
  expect([iconOf("history_event"), iconOf("toString")]).toEqual([undefined, undefined]);
});
