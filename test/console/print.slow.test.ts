import type { Browser, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../support/api.ts";
import { program, withChromium } from "./support/in_chromium.ts";
import { pathOf, readerOf } from "./support/visits.ts";
import { openWindow } from "./support/window.ts";

/** Width between the margins of A4 in CSS pixels, portrait and landscape. */
const PAPERS = [718, 1047];

/** Elements that are only for clicking, but would be printed. */
const clickable = (page: Page) =>
  page.evaluate<string[]>(`[...document.querySelectorAll("nav, button, .button, .filters, .back")]
    .filter((each) => each.checkVisibility() && !each.matches(".who > button"))
    .map((each) => each.outerHTML.slice(0, 80))`);

describe.skipIf(program === undefined)("printed pages (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test.each([
    { id: "home", says: ["Ada Lovelace", "1 request waits for you", "Active delegations", "Denied lately"] },
    {
      id: "request",
      says: ["Ada Lovelace", "It may", "What could go wrong?", "Europe/Berlin"],
    },
    { id: "delegation", says: ["Bank", "What it says", "About it", "Signatures", "Last decisions"] },
    { id: "history", says: ["Ada Lovelace", "Every decision about your agents", "Allowed", "Denied"] },
    { id: "history_event", says: ["Ada Lovelace", "What happened", "Rule by rule", "Receipt", "sha256:"] },
  ])("$id prints its content, times and account, and nothing to click", async ({ id, says }) => {
    const viewer = await readerOf(api, id);
    for (const width of PAPERS) {
      const look = { width, theme: "dark" } as const;
      const { page, complaints, close } = await openWindow(browser, api, { client: viewer.client, look });
      await page.goto(`${api.url}${pathOf(id, viewer)}`);
      expect((await clickable(page)).length).toBeGreaterThan(0);
      await page.emulateMedia({ media: "print" });
      expect([width, await clickable(page)]).toEqual([width, []]);
      for (const said of says) {
        expect([said, await page.getByText(said).filter({ visible: true }).count()]).not.toEqual([said, 0]);
      }
      expect(await page.locator("time:visible").count()).toBeGreaterThan(0);
      const colours =
        "[document.body, document.querySelector('.card')].map((each) => getComputedStyle(each))";
      expect(await page.evaluate(`${colours}.map((each) => each.backgroundColor)`)).toEqual([
        "rgb(255, 255, 255)",
        "rgb(255, 255, 255)",
      ]);
      expect(await page.evaluate<number>("document.documentElement.scrollWidth")).toBe(width);
      expect(complaints).toEqual([]);
      await close();
    }
  });
});
