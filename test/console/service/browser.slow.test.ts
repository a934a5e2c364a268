import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import { createShardLeases } from "../../../src/events/shards.ts";
import type { TestApi } from "../../support/api.ts";
import { administratorOf } from "../../support/service_world.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { openWindow } from "../support/window.ts";

const WORKER = "8220ed9d-87bc-4639-b25f-c0609a1bc8d1";

describe.skipIf(program === undefined)("the service page in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  test("updates itself, and shows that an update failed, without losing its content", async () => {
    const { client } = await administratorOf(api);
    const { page, close } = await openWindow(browser, api, { client, look: { width: 1440, theme: "light" } });
    await page.clock.install();
    await page.goto(`${api.url}/console/service`);
    const noWorker = page.getByText("Act now: Workers");
    await noWorker.waitFor();
    await createShardLeases(api.db, WORKER, 600).renew();
    await page.clock.fastForward(16_000);
    await noWorker.waitFor({ state: "detached" });
    const old = page.getByText("This part could not be updated");
    expect(await old.isVisible()).toBe(false);

    await api.db.raw("alter table sessions rename to hidden_sessions");
    await page.clock.fastForward(16_000);
    await old.waitFor();
    expect(await page.getByText("Running workers").isVisible()).toBe(true);
    expect(await page.getByRole("heading", { level: 2 }).count()).toBe(8);

    await api.db.raw("alter table hidden_sessions rename to sessions");
    await page.clock.fastForward(16_000);
    await old.waitFor({ state: "hidden" });
    await close();
  });
});
