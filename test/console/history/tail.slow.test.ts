import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../../support/api.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { openWindow } from "../support/window.ts";
import { historyViewer } from "./viewer.ts";

describe.skipIf(program === undefined)("the history in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  const open = async (scripts = true) => {
    const seen = await historyViewer(api);
    const window = await openWindow(browser, api, {
      client: seen.client,
      look: { width: 1440, theme: "light", scripts },
    });
    const rows = () => window.page.locator("[data-row]").count();
    return { seen, window, page: window.page, rows };
  };

  test("shows new decisions while it is open, until updates are stopped", async () => {
    const { seen, window, page, rows } = await open();
    await page.clock.install();
    const asked: string[] = [];
    page.on("response", (response) => {
      if (response.url().includes("seen=")) asked.push(String(response.status()));
    });
    await page.goto(`${api.url}/console/history?result=allow`);
    expect(await rows()).toBe(2);
    await page.getByRole("button", { name: "Stop updating" }).waitFor();
    expect(await page.getByRole("link", { name: "Look for newer ones" }).isVisible()).toBe(false);
    await page.clock.fastForward(4_100);
    await expect.poll(() => asked).toEqual(["204"]);
    const id = await seen.decide(1);
    await page.clock.fastForward(4_100);
    await page.locator(`[data-row="${id}"]`).waitFor();
    expect(await page.getByRole("status").last().textContent()).toBe("New in the list: 1");
    const next = await seen.decide(1);
    await page.clock.fastForward(4_100);
    await page.locator(`[data-row="${next}"]`).waitFor();
    await page.getByRole("button", { name: "Stop updating" }).click();
    const before = asked.length;
    await seen.decide(1);
    await page.clock.fastForward(20_000);
    await page.waitForTimeout(300);
    expect([await rows(), asked.length]).toEqual([4, before]);
    await page.getByRole("button", { name: "Keep up to date" }).click();
    await expect.poll(rows).toBe(5);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("makes no requests while it is hidden, and one immediately when it is shown", async () => {
    const { seen, window, page, rows } = await open();
    await page.clock.install();
    await page.goto(`${api.url}/console/history`);
    const hide = (hidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true });
         document.dispatchEvent(new Event("visibilitychange"));`,
      );
    await hide(true);
    await seen.decide(1);
    await page.clock.fastForward(20_000);
    await page.waitForTimeout(300);
    expect(await rows()).toBe(3);
    await hide(false);
    await expect.poll(rows).toBe(4);
    await window.close();
  });

  test("says that it is out of date while updates are refused, but not after the next successful update", async () => {
    const { window, page, rows } = await open();
    await page.clock.install();
    await page.goto(`${api.url}/console/history`);
    const old = page.getByText("This part could not be updated");
    const before = await rows();
    const cookies = await page.context().cookies();
    await page.context().clearCookies();
    await page.clock.fastForward(4_100);
    await old.waitFor();
    expect(await rows()).toBe(before);
    await page.context().addCookies(cookies);
    await page.clock.fastForward(4_100);
    await old.waitFor({ state: "hidden" });
    await window.close();
  });

  test("appears once before any script changes it", async () => {
    const { window, page } = await open();
    await page.addInitScript(`{
      const waiting = [];
      globalThis.requestAnimationFrame = (run) => waiting.push(run);
      globalThis.draw = () => waiting.splice(0).forEach((run) => run());
    }`);
    await page.goto(`${api.url}/console/history`);
    const times = page.locator("main time").first();
    const stop = page.getByRole("button", { name: "Stop updating" });
    expect([await times.textContent(), await stop.isVisible()]).toEqual([
      expect.stringMatching(/ UTC$/),
      false,
    ]);
    await page.evaluate("draw()");
    await stop.waitFor();
    expect(await times.getAttribute("title")).toMatch(/ UTC$/);
    expect(await times.textContent()).not.toMatch(/ UTC$/);
    await window.close();
  });

  test("shows times in UTC on all pages after its button was used, until it is used again", async () => {
    const { seen, window, page } = await open();
    await page.goto(`${api.url}/console/history`);
    const first = page.locator("main time").first();
    await page.getByRole("button", { name: "Show times in UTC" }).click();
    expect(await first.textContent()).toMatch(/:\d\d:\d\d UTC$/);
    await page.goto(`${api.url}/console/history/${seen.ids.denied}`);
    await page.getByRole("button", { name: "Show times in my time zone" }).click();
    expect(await first.textContent()).toMatch(/\d\d:\d\d:\d\d( [ap]m)?$/);
    await window.close();
  });

  test("runs its scripts even in a background tab, which the browser does not draw", async () => {
    const { window, page } = await open();
    await page.addInitScript(`{
      globalThis.requestAnimationFrame = () => 0;
      Object.defineProperty(document, "hidden", { get: () => true });
    }`);
    await page.goto(`${api.url}/console/history`);
    await page.getByRole("button", { name: "Stop updating" }).waitFor();
    await window.close();
  });

  test("has a link to newer events if scripts do not run, and its files can be downloaded", async () => {
    const { seen, window, page, rows } = await open(false);
    await page.goto(`${api.url}/console/history?result=allow`);
    expect(await page.getByRole("button", { name: "Stop updating" }).isVisible()).toBe(false);
    await seen.decide(1);
    await page.getByRole("link", { name: "Look for newer ones" }).click();
    await expect.poll(rows).toBe(3);
    for (const [name, ending] of [
      ["CSV", "csv"],
      ["NDJSON", "ndjson"],
    ] as const) {
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name, exact: true }).click(),
      ]);
      expect(file.suggestedFilename()).toMatch(new RegExp(`^history-[0-9-]+\\.${ending}$`));
      expect(await file.failure()).toBeNull();
    }
    await window.close();
  });
});
