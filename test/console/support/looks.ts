import { expect } from "vitest";
import { COLOR_RULES, violations } from "./axe.ts";
import { THEMES, type Window } from "./window.ts";

/**
 * Checks in each theme that the page has no axe violations and causes no browser warnings. At its width and
 * at the widths in `zoomed`, it must not be wider than its window.
 */
export async function expectFaultless(
  { page, complaints }: Window,
  zoomed: readonly number[] = [],
): Promise<void> {
  const opened = page.viewportSize()?.width ?? 0;
  for (const [at, theme] of THEMES.entries()) {
    await page.emulateMedia({ colorScheme: theme });
    for (const width of [...zoomed, opened]) {
      await page.setViewportSize({ width, height: 800 });
      const wide = await page.evaluate<number>("document.documentElement.scrollWidth");
      expect([theme, wide]).toEqual([theme, width]);
    }
    expect([opened, theme, await violations(page, at === 0 ? undefined : COLOR_RULES)]).toEqual([
      opened,
      theme,
      [],
    ]);
  }
  expect(complaints).toEqual([]);
}
