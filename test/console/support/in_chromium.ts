import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { findChromium, startChromium } from "../../support/chromium.ts";

/** The path of Chromium, or `undefined` if it is not installed. */
export const program = await findChromium();

/** Starts the console and Chromium for all tests of a block. */
export function withChromium(use: (started: { api: TestApi; browser: Browser }) => void): void {
  let api: TestApi | undefined;
  let browser: Browser | undefined;
  beforeAll(async () => {
    api = await startApi();
    browser = await startChromium(program ?? "");
    use({ api, browser });
  });
  afterAll(async () => {
    await browser?.close();
    await api?.stop();
  });
}
