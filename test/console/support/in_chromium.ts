import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { findChromium, startChromium } from "../../support/chromium.ts";
import type { PlatformApi } from "../../support/platform_world.ts";
import { startConsole } from "./console.ts";

/** Where Chromium is; nothing when it cannot be had. */
export const program = await findChromium();

/** The console and a Chromium, from a block's first test to its last; `use` gets them before the first. */
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
