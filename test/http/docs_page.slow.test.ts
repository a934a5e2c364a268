import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { findChromium, startChromium } from "../support/chromium.ts";
import { contract } from "./walk/documented.ts";

const program = await findChromium();

describe.skipIf(program === undefined)(
  "the API reference page in a browser (needs Debian's chromium)",
  () => {
    let api: TestApi;
    let browser: Browser;

    beforeAll(async () => {
      api = await startApi();
      browser = await startChromium(program ?? "");
    });
    afterAll(async () => {
      await browser?.close();
      await api?.stop();
    });

    async function open(width: number, colorScheme: "light" | "dark") {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      const complaints: string[] = [];
      const asked: string[] = [];
      page.on("console", (message) => complaints.push(message.text()));
      page.on("pageerror", (error) => complaints.push(error.message));
      page.on("request", (request) => asked.push(request.url()));
      await page.goto(`${api.url}/docs`);
      return { page, complaints, asked };
    }

    test.each([
      [1280, "light"],
      [1280, "dark"],
      [390, "light"],
      [390, "dark"],
    ] as const)(
      "shows every operation at %i pixels, %s, without warnings, requests to other hosts, or horizontal scrolling",
      async (width, scheme) => {
        const { page, complaints, asked } = await open(width, scheme);
        for (const { operationId, path, summary } of contract.operations) {
          const article = page.locator(`article[id="${operationId}"]`);
          expect(await article.getByRole("heading", { name: summary, exact: true }).isVisible()).toBe(true);
          expect(await article.locator(".call").textContent()).toContain(path);
          expect(await page.locator(`nav a[href="#${operationId}"]`).count()).toBe(1);
        }
        await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })");
        const widest = await page.evaluate("document.documentElement.scrollWidth");
        expect(widest).toBeLessThanOrEqual(width);
        expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe(
          scheme === "dark" ? "rgb(13, 17, 23)" : "rgb(255, 255, 255)",
        );
        expect(complaints.filter((text) => !text.includes("favicon"))).toEqual([]);
        expect(asked.filter((url) => !/\/(docs|favicon\.ico)$/.test(url))).toEqual([]);
      },
    );

    test("works with the keyboard: skip link, navigation, opening a response", async () => {
      const { page } = await open(1280, "light");
      await page.keyboard.press("Tab");
      expect(await focused(page)).toBe("To the operations");
      await page.keyboard.press("Enter");
      expect(new URL(page.url()).hash).toBe("#content");
      const details = page.locator("article#verify_proof details").first();
      await details.locator("summary").focus();
      await page.keyboard.press("Enter");
      expect(await details.getAttribute("open")).not.toBeNull();
    });

    const focused = (page: Page) => page.evaluate("document.activeElement.textContent");

    test("runs no script that the OpenAPI document contains", async () => {
      const { page, complaints } = await open(1280, "light");
      await page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')",
      );
      await expect.poll(() => complaints.some((text) => text.includes("Content Security Policy"))).toBe(true);
      expect(await page.title()).toBe("Deputize API");
    });
  },
);
