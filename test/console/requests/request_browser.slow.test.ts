import type { Browser, Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { TestApi } from "../../support/api.ts";
import { violations } from "../support/axe.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { expectFaultless } from "../support/looks.ts";
import { viewerOf } from "../support/visits.ts";
import { FOUR_LOOKS, openWindow, WIDTHS } from "../support/window.ts";

/** Returns the focused element's name or label, and whether the focus is visible. */
const focused = (page: Page) =>
  page.evaluate<{ name: string; seen: boolean }>(`(() => {
    const at = document.activeElement;
    const label = at.labels?.[0] ?? at;
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    const { top, bottom, width } = at.getBoundingClientRect();
    const seen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && width > 0 && bottom > 0 && top < innerHeight;
    return { name: label.innerText.trim().replaceAll(/\\s+/g, " "), seen };
  })()`);

/** Presses Tab until the element has the focus. Every element on the way must show its focus. */
async function tabTo(page: Page, name: string): Promise<string[]> {
  const stops: string[] = [];
  while (stops.length < 60) {
    await page.keyboard.press("Tab");
    const at = await focused(page);
    expect([at.name, at.seen]).toEqual([at.name, true]);
    stops.push(at.name);
    if (at.name.startsWith(name)) return stops;
  }
  throw new Error(`${name} is not reached by Tab: ${stops.join(" | ")}`);
}

describe.skipIf(program === undefined)("a request page in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test.each(FOUR_LOOKS)(
    "lets a person narrow and approve a request using only the keyboard: $width px, scripts $scripts",
    async (look) => {
      const seen = await viewerOf(api, "busy");
      const window = await openWindow(browser, api, {
        client: seen.client,
        look,
      });
      const { page } = window;
      await page.goto(`${api.url}/console/requests`);
      await tabTo(page, "shop-bot");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "shop-bot asks to act for you" }).waitFor();
      const stops = await tabTo(page, "orders:refund");
      expect(stops.slice(-2)).toEqual([
        expect.stringContaining("Read data"),
        expect.stringContaining("orders:refund, as Shop defines it"),
      ]);
      await page.keyboard.press("Space");
      await tabTo(page, "Change");
      await page.keyboard.press("Enter");
      await tabTo(page, "Ends after");
      await page.keyboard.press("Control+A");
      await page.keyboard.type("2");
      await tabTo(page, "Unit");
      await page.keyboard.type("hours");
      await tabTo(page, "Add a limit");
      await page.keyboard.press("Enter");
      await tabTo(page, "Amount");
      await page.keyboard.press("Enter");
      await tabTo(page, "At most");
      await page.keyboard.type("25");
      await tabTo(page, "Currency");
      // All letters in one step, because the preview of a currency with fewer letters is an error.
      await page.keyboard.insertText("EUR");
      await page.keyboard.press("Enter");
      const preview = page.locator("#preview");
      await preview.getByText("the amount is at most 25 EUR").waitFor();
      expect(await preview.textContent()).not.toContain("orders:refund");
      expect(await page.getByLabel("At most", { exact: true }).inputValue()).toBe("25");
      if (!look.scripts) await page.getByLabel("Currency").focus();
      await tabTo(page, "Approve");
      await page.keyboard.press("Enter");
      await page.waitForURL(/notice=approved/);
      const said = (await page.locator("main").textContent()) ?? "";
      expect(said).toMatch(/What the certificate says.*Read data.*at most 25 EUR.*Held back.*orders:refund/s);
      // The preview refuses an amount until the currency is written, which causes a browser warning.
      expect(window.complaints.filter((said) => !said.includes("400"))).toEqual([]);
      await window.close();
    },
  );

  test("updates its preview after each change, and shows errors in the preview", async () => {
    const seen = await viewerOf(api, "busy");
    const look = { width: 1440, theme: "light" } as const;
    const window = await openWindow(browser, api, { client: seen.client, look });
    const { page } = window;
    await page.goto(`${api.url}/console/requests/${seen.ids.request}`);
    const preview = page.locator("#preview");
    await page.getByRole("checkbox", { name: /^orders:refund/ }).uncheck();
    await preview.getByText("refund").waitFor({ state: "detached" });
    await page.getByText("Add a limit").click();
    await page.getByText("Hours of the day").click();
    await page.getByLabel("From", { exact: true }).fill("09:00");
    await page.getByLabel("To", { exact: true }).fill("11:30");
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByLabel("Time zone").blur();
    await preview.getByText("it is from 09:00 to 11:30, by the time of Europe/Berlin").waitFor();
    expect(await preview.getByRole("img", { name: /hours of a day/ }).count()).toBe(1);
    await page.getByText("Place", { exact: true }).click();
    await page.getByLabel("Latitude").fill("48.1");
    await page.getByLabel("Longitude").fill("11.6");
    await page.getByLabel("Kilometers around it").fill("20");
    await page.getByLabel("Kilometers around it").blur();
    await preview.getByText("within 20 km of 48.1° N 11.6° E").waitFor();
    expect(await preview.getByRole("link", { name: /See the place/ }).count()).toBe(1);
    await page.getByLabel("Time zone").fill("Mars");
    await page.getByLabel("Time zone").blur();
    await preview
      .getByText("Nothing can be signed like this yet: Write the time zone as the IANA database")
      .waitFor();
    expect(await page.locator("time:not([title])").count()).toBe(0);
    await page.getByRole("button", { name: "Approve" }).click();
    await page.locator("#approve-zone[aria-invalid=true]").waitFor();
    expect(await page.evaluate("document.activeElement.name")).toBe("zone");
    expect(await violations(page)).toEqual([]);
    // The refused approval and the refused previews before it cause browser warnings.
    expect(window.complaints.filter((said) => !said.includes("400"))).toEqual([]);
    await window.close();
  });

  test("shows the last of several changes in its preview, even if changes are faster than responses", async () => {
    const seen = await viewerOf(api, "busy");
    const look = { width: 1440, theme: "light" } as const;
    const window = await openWindow(browser, api, { client: seen.client, look });
    const { page } = window;
    const held: Route[] = [];
    await page.route("**/console/requests/*", (route) => {
      if (route.request().method() === "POST") held.push(route);
      else void route.continue();
    });
    await page.goto(`${api.url}/console/requests/${seen.ids.request}`);
    await page.getByText("Add a limit").click();
    await page.getByText("Amount", { exact: true }).click();
    await page.getByLabel("Currency").fill("EUR");
    const change = (amount: string) => page.getByLabel("At most", { exact: true }).fill(amount);
    await change("25");
    await page.getByLabel("At most", { exact: true }).blur();
    await expect.poll(() => held.length).toBe(1);
    await change("7");
    await page.getByLabel("At most", { exact: true }).blur();
    await held.shift()?.continue();
    await page.locator("#preview").getByText("the amount is at most 25 EUR").waitFor();
    await expect.poll(() => held.length).toBe(1);
    await held.shift()?.continue();
    await page.locator("#preview").getByText("the amount is at most 7 EUR").waitFor();
    await window.close();
  });

  test("keeps the preview unchanged if the session has expired in the meantime", async () => {
    const seen = await viewerOf(api, "busy");
    const look = { width: 1440, theme: "light" } as const;
    const window = await openWindow(browser, api, { client: seen.client, look });
    const { page } = window;
    await page.goto(`${api.url}/console/requests/${seen.ids.request}`);
    await seen.client.post("/v1/auth/logout");
    const answered = page.waitForResponse((answer) => answer.request().method() === "POST");
    await page.getByRole("checkbox", { name: /^orders:refund/ }).uncheck();
    expect((await answered).status()).toBe(403);
    await page.waitForTimeout(300);
    expect(await page.locator("#preview").textContent()).toContain("orders:refund");
    await window.close();
  });

  test("has a name and a description for every field", async () => {
    const seen = await viewerOf(api, "busy");
    const look = { width: 1440, theme: "light" } as const;
    const window = await openWindow(browser, api, { client: seen.client, look });
    const { page } = window;
    await page.goto(`${api.url}/console/requests/${seen.ids.request}`);
    for (const summary of await page.locator("#form-approve summary").all()) await summary.click();
    const tree = await page.locator("#form-approve").ariaSnapshot();
    for (const said of [
      'group "It may"',
      'checkbox "Read data Cannot change anything." [checked]',
      'group "End it after"',
      'textbox "Ends after"',
      'combobox "Unit"',
      'group "Limits that you add"',
      'textbox "At most"',
      'textbox "Latitude"',
      'region "What could go wrong?"',
      'region "What the certificate will say"',
      "- status:",
      'link "See the place on OpenStreetMap (another site)"',
      'button "Preview"',
      'button "Approve 2 of 2"',
    ]) {
      expect(tree).toContain(said);
    }
    const described = await page.evaluate<string>(`(() => {
      const ids = document.querySelector("#approve-currency").getAttribute("aria-describedby").split(" ");
      return ids.map((id) => document.getElementById(id).textContent).join(" ");
    })()`);
    expect(described).toBe("As the application writes it, such as EUR.");
    expect(await violations(page)).toEqual([]);
    await window.close();
  });

  test("has no axe violation and fits its window after the decision", async () => {
    const seen = await viewerOf(api, "busy");
    const path = `/console/requests/${seen.ids.request}`;
    await (await seen.open(path)).send("approve", {
      approved_scope: ["data:read"],
      amount_max: "5",
      currency: "EUR",
    });
    for (const width of WIDTHS) {
      const window = await openWindow(browser, api, { client: seen.client, look: { width, theme: "light" } });
      await window.page.goto(`${api.url}${path}`);
      await expectFaultless(window);
      await window.close();
    }
  });

  test("transfers less than 60,000 bytes, including everything that it loads", async () => {
    const seen = await viewerOf(api, "busy");
    const look = { width: 1440, theme: "light" } as const;
    const window = await openWindow(browser, api, { client: seen.client, look });
    let bytes = 0;
    window.page.on("requestfinished", async (request) => {
      const { responseBodySize, responseHeadersSize } = await request.sizes();
      bytes += responseBodySize + responseHeadersSize;
    });
    await window.page.goto(`${api.url}/console/requests/${seen.ids.request}`, { waitUntil: "networkidle" });
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(60_000);
    await window.close();
  });
});
