import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../../support/api.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { expectFaultless } from "../support/looks.ts";
import { openWindow, TWO_LOOKS, WIDTHS } from "../support/window.ts";
import { triedViewer } from "./viewer.ts";

describe.skipIf(program === undefined)("the trial page in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test.each([
    ["Allowed", {}],
    ["Denied", { "try-context.amount": "300" }],
  ])(
    "with the result %s has no axe violation and no browser warnings, and fits its window",
    async (heading, typed) => {
      const viewer = await triedViewer(api);
      for (const width of WIDTHS) {
        const look = { width, theme: "light" } as const;
        const window = await openWindow(browser, api, { client: viewer.client, look });
        const { page } = window;
        await page.goto(`${api.url}/console/try`);
        for (const [id, value] of Object.entries(typed)) await page.locator(`[id="${id}"]`).fill(value);
        await page.getByRole("button", { name: "Try it" }).click();
        await page.getByRole("heading", { level: 1, name: heading }).waitFor();
        for (const summary of await page.locator("summary").all()) await summary.click();
        await expectFaultless(window);
        await window.close();
      }
    },
  );

  test.each(TWO_LOOKS)("lets a person use only the keyboard: $width px, scripts $scripts", async (look) => {
    const viewer = await triedViewer(api);
    const { page, complaints, close } = await openWindow(browser, api, { client: viewer.client, look });
    await page.goto(`${api.url}/console/try`);
    await page.getByLabel("Another scope").focus();
    await page.keyboard.type("files:read");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Denied" }).waitFor();
    const copy = page.getByRole("button", { name: "Copy" });
    expect(await copy.isVisible()).toBe(look.scripts);
    expect(complaints).toEqual([]);
    await close();
  });
});
