import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { consolePages } from "../../src/console/pages.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { findChromium, startChromium } from "../support/chromium.ts";
import { PICTURES, pictured } from "./support/pictures.ts";
import { pathOf, viewerOf, visits } from "./support/visits.ts";
import { drawn, LOOKS, openWindow } from "./support/window.ts";

const FOLDER = join(import.meta.dirname, "../../.screenshots");

let api: TestApi;
let browser: Browser;
beforeAll(async () => {
  const program = await findChromium();
  if (program === undefined) throw new Error("Chromium is needed: apt-get install chromium");
  await mkdir(FOLDER, { recursive: true });
  [api, browser] = await Promise.all([startApi(), startChromium(program)]);
});
afterAll(async () => {
  await browser.close();
  await api.stop();
  console.log(`Written to ${FOLDER}`);
});

test.each(consolePages.filter((each) => !("file" in each)))("page $id has screenshots", async ({ id }) => {
  const viewer = await viewerOf(api, visits[id]?.viewer ?? "nobody");
  const path = pathOf(id, viewer);
  for (const look of LOOKS) {
    const window = await openWindow(browser, api, { client: viewer.client, look });
    const answer = await window.page.goto(`${api.url}${path}`);
    expect([id, answer?.status()]).toEqual([id, 200]);
    const file = join(FOLDER, `${id}-${look.theme}-${look.width}.png`);
    await drawn(window.page);
    await window.page.screenshot({ path: file, fullPage: true });
    await window.close();
  }
});

test("the screenshots for README.md are saved", async () => {
  const { client, ids } = await pictured(api);
  for (const { name, height, path } of PICTURES) {
    const window = await openWindow(browser, api, { client, look: { width: 1100, theme: "light" } });
    await window.page.setViewportSize({ width: 1100, height });
    expect((await window.page.goto(`${api.url}${path(ids)}`))?.status()).toBe(200);
    await window.page.screenshot({ path: join(FOLDER, `readme-${name}.png`) });
    await window.close();
  }
});
