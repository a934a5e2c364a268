import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { findChromium, startChromium } from "../../support/chromium.ts";
import type { PlatformApi } from "../../support/platform_world.ts";
import { startConsole } from "./console.ts";

/** The path of Chromium, or `undefined` if it is not installed. */
export const program = await findChromium();

/** Starts the console and Chromium for all tests of a block. */
export function withChromium(use: (started: { api: PlatformApi; browser: Browser }) => void): void {
  let api: PlatformApi | undefined;
  let browser: Browser | undefined;
  beforeAll(async () => {
    api = await startConsole();
    browser = await startChromium(program ?? "");
    use({ api, browser });
  });
  afterAll(async () => {
    await browser?.close();
    await api?.stop();
  });
}
