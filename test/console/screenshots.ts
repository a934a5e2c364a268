import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { consolePages } from "../../src/console/pages.ts";
import { findChromium, startChromium } from "../support/chromium.ts";
import { startConsole } from "./support/console.ts";
import { pathOf, viewerOf, visits } from "./support/visits.ts";
import { LOOKS, openWindow } from "./support/window.ts";

const FOLDER = join(import.meta.dirname, "../../.screenshots");

test("every page of the console, as it looks", async () => {
  const program = await findChromium();
  if (program === undefined) throw new Error("Chromium is needed: apt-get install chromium");
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  const api = await startConsole();
  const browser = await startChromium(program);
  for (const { id } of consolePages) {
    const viewer = await viewerOf(api, visits[id]?.viewer ?? "nobody");
    const path = pathOf(id, viewer);
    for (const look of LOOKS) {
      const window = await openWindow(browser, api, { client: viewer.client, look });
      const answer = await window.page.goto(`${api.url}${path}`);
      expect([id, answer?.status()]).toEqual([id, 200]);
      const file = join(FOLDER, `${id}-${look.theme}-${look.width}.png`);
      await window.page.screenshot({ path: file, fullPage: true });
      await window.close();
    }
  }
  await browser.close();
  await api.stop();
  console.log(`Written to ${FOLDER}`);
});
