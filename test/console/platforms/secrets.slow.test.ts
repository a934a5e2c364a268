import { readFile } from "node:fs/promises";
import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../../support/api.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { openWindow, TWO_LOOKS } from "../support/window.ts";

describe.skipIf(program === undefined)("secrets in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test.each(TWO_LOOKS)(
    "a person registers a platform and reads its key once: $width px, scripts $scripts",
    async (look) => {
      const { client } = await api.person();
      const window = await openWindow(browser, api, { client, look });
      const { page } = window;
      await page.goto(`${api.url}/console/platforms`);
      await page.getByRole("link", { name: "Register a platform" }).click();
      await page.getByLabel("Name", { exact: true }).fill("Shop");
      await page.locator("summary", { hasText: /^data/ }).click();
      await page.getByLabel("data:read").check();
      await page.getByLabel("Your own scopes").fill("custom:orders:refund");
      await page.getByRole("button", { name: "Register the platform" }).click();
      const key = (await page.locator("#api-key").textContent()) ?? "";
      expect(key).toMatch(/^dpz_\w{8}_\w{43}_\w{6}$/);
      const keep = page.getByRole("button", { name: "Download" }).first();
      expect(await keep.isVisible()).toBe(look.scripts);
      if (look.scripts) {
        const [kept] = await Promise.all([page.waitForEvent("download"), keep.click()]);
        expect(kept.suggestedFilename()).toBe("api-key.txt");
        expect(await readFile(await kept.path(), "utf8")).toBe(key);
      }
      await page.reload();
      expect(await page.content()).not.toContain(key);
      await page.goBack();
      expect(await page.content()).not.toContain(key);
      expect(window.complaints.filter((each) => !/blob:|ERR_CACHE_MISS/.test(each))).toEqual([]);
      await window.close();
    },
  );

  test("the page counts down until a former key expires", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const connection = `/connections/${connectionId}`;
    await person.client.post(`/v1/service${connection}/rotate-key`, { grace_seconds: 3_600 });
    const window = await openWindow(browser, api, {
      client: person.client,
      look: { width: 360, theme: "dark" },
    });
    const { page } = window;
    await page.clock.install({ time: api.clock.now() });
    await page.goto(`${api.url}/console${connection}`);
    const shown = page.locator("[data-countdown]");
    const said = async () => (await shown.textContent()) ?? "";
    expect(await said()).toMatch(/^(1:00:00|0:59:5\d) left$/);
    await page.clock.fastForward(1_800_000);
    await expect.poll(said).toMatch(/^0:(30:00|29:5\d) left$/);
    await page.clock.fastForward(1_801_000);
    await expect.poll(said).toBe("It has ended.");
    expect(window.complaints).toEqual([]);
    await window.close();
  });
});
