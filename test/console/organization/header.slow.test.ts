import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../../support/api.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { FOUR_LOOKS, openWindow } from "../support/window.ts";
import { organizationOf } from "./organization.ts";

describe.skipIf(program === undefined)("the header in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test.each(FOUR_LOOKS)(
    "leads by keyboard to every page and to a second account: $width px, scripts $scripts",
    async (look) => {
      const { width } = look;
      const { approver } = await organizationOf(api, {
        organization: "Analytical Engines of Greater London",
      });
      const window = await openWindow(browser, api, {
        client: approver.client,
        look,
      });
      const { page } = window;
      await page.goto(`${api.url}/console/credit`);
      const fits = () => page.evaluate<number>("document.documentElement.scrollWidth");
      const entry = page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Try it" });
      const menu = page.getByRole("button", { name: "Menu" });
      expect([await menu.isVisible(), await entry.isVisible()]).toEqual(
        width < 800 ? [true, false] : [false, true],
      );
      if (width < 800) {
        await menu.press("Enter");
        await entry.waitFor();
        await page.keyboard.press("Tab");
        expect(await page.evaluate("document.activeElement.textContent")).toBe("Home");
        expect(await fits()).toBe(width);
        await page.keyboard.press("Escape");
        expect(await entry.isVisible()).toBe(false);
      }
      await page.getByRole("button", { name: "Acting for Ada Lovelace" }).press("Enter");
      const other = page.getByRole("link", { name: "Analytical Engines of Greater London" });
      await other.waitFor();
      expect(await fits()).toBe(width);
      await other.press("Enter");
      await page.waitForURL(/\/console\/for\/[0-9a-f-]{36}\/credit$/);
      await page.getByRole("button", { name: "Acting for Analytical Engines of Greater London" }).waitFor();
      expect(await fits()).toBe(width);
      expect(window.complaints).toEqual([]);
      await window.close();
    },
  );

  test("keeps the code from an invitation link until the invited person has signed in", async () => {
    const { approver } = await organizationOf(api);
    const code = "0123456789abcdef".repeat(4);
    const window = await openWindow(browser, api, { look: { width: 1440, theme: "light" } });
    const { page } = window;
    await page.goto(`${api.url}/console/invitations/accept#code=${code}`);
    await page.getByLabel("E-mail address").fill(approver.email);
    expect(page.url()).not.toContain(code);
    await page.getByRole("button", { name: "Send me a code" }).click();
    await page.getByLabel("Code", { exact: true }).fill(await approver.client.codeFor(approver.email));
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(/invitations\/accept/);
    expect(await page.getByLabel("Code of the invitation").inputValue()).toBe(code);
    await page.reload();
    expect(await page.getByLabel("Code of the invitation").inputValue()).toBe("");
    await window.close();
  });
});
