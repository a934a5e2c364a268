import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../support/api.ts";
import { delegationViewer } from "./delegations/delegation_viewer.ts";
import { program, withChromium } from "./support/in_chromium.ts";
import { drawn, openWindow } from "./support/window.ts";

describe.skipIf(program === undefined)("a person who works (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test("keeps their session by working, and can send a form of a tab that is older", async () => {
    const seen = await delegationViewer(api);
    const window = await openWindow(browser, api, {
      client: seen.client,
      look: { width: 1440, theme: "light" },
    });
    const { page, context } = window;
    const sessionIn = async () =>
      (await context.cookies()).find(({ name }) => name === "service_session")?.value;
    const older = await context.newPage();
    await older.goto(`${api.url}/console/delegations/${seen.ids.cert}/revoke`);
    await drawn(older);
    await page.clock.install();
    await page.goto(`${api.url}/console/delegations`);
    await drawn(page);
    const first = await sessionIn();
    await page.keyboard.press("Tab");
    await page.clock.fastForward(3_000);
    expect(await sessionIn()).toBe(first);
    await page.clock.fastForward(6 * 60_000);
    expect(await sessionIn()).toBe(first);
    const renewed = page.waitForResponse(/\/v1\/auth\/refresh$/);
    await page.keyboard.press("Tab");
    await page.clock.fastForward(3_000);
    expect((await renewed).status()).toBe(200);
    expect(await sessionIn()).not.toBe(first);
    await older.getByRole("button", { name: "Revoke it" }).click();
    await older.waitForURL(/notice=revoked/);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("opens pages and the search with keys, and can switch these keys off", async () => {
    const { client } = await delegationViewer(api);
    const window = await openWindow(browser, api, { client, look: { width: 1440, theme: "dark" } });
    const { page } = window;
    await page.goto(`${api.url}/console/requests`);
    await drawn(page);
    await page.keyboard.press("?");
    const help = page.getByRole("heading", { name: "Keyboard shortcuts" });
    await help.waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.waitForTimeout(1_600);
    await page.keyboard.press("a");
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.waitForURL(/\/console\/delegations$/);
    await drawn(page);
    await page.keyboard.press("/");
    await page.keyboard.type("g r?");
    expect(await page.getByLabel("Search").inputValue()).toBe("g r?");
    await page.getByRole("button", { name: "Keyboard shortcuts" }).click();
    await page.getByLabel("Use shortcuts in this browser").uncheck();
    await page.getByRole("button", { name: "Close" }).click();
    await page.keyboard.press("?");
    expect(await help.isVisible()).toBe(false);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("finds a scope by its words, and sends scopes that the search hides", async () => {
    const { client } = await delegationViewer(api);
    const window = await openWindow(browser, api, { client, look: { width: 320, theme: "light" } });
    const { page } = window;
    await page.goto(`${api.url}/console/platforms/new`);
    await drawn(page);
    const search = page.getByLabel("Search these");
    await search.fill("read data");
    await page.getByRole("checkbox", { name: "Read data" }).check();
    await search.fill("send payments");
    await page.getByRole("checkbox", { name: "Send payments" }).waitFor();
    expect(await page.getByRole("checkbox", { name: "Read data" }).isVisible()).toBe(false);
    await page.getByLabel("Name", { exact: true }).fill("Found shop");
    await page.getByRole("button", { name: "Register the platform" }).click();
    await page.getByText("Found shop").first().waitFor();
    const { body } = await client.get("/v1/service/platforms");
    const made = (body.items as { name: string; default_allowed_scopes: string[] }[]).find(
      ({ name }) => name === "Found shop",
    );
    expect(made?.default_allowed_scopes).toEqual(["data:read"]);
    await window.close();
  });
});
