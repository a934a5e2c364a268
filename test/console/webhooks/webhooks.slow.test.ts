import type { Browser } from "playwright-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { stepRecovery } from "../../../src/webhooks/resend_and_recover.ts";
import type { TestApi } from "../../support/api.ts";
import { insertDelivery } from "../../support/deliveries.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { program, withChromium } from "../support/in_chromium.ts";
import { type Look, openWindow, type Window } from "../support/window.ts";
import { type RealReceiver, realReceiver } from "./real_receiver.ts";

describe.skipIf(program === undefined)("the callback pages in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  let own: RealReceiver;
  withChromium((started) => {
    ({ api, browser } = started);
  });
  beforeEach(async () => {
    own = await realReceiver(api);
  });
  afterEach(() => own.receiver.close());

  const open = async (part: string, look: Look): Promise<Window> => {
    const window = await openWindow(browser, api, { client: own.person.client, look });
    await window.page.goto(`${api.url}${own.at(part)}`);
    return window;
  };

  test.each([
    { width: 360, scripts: true },
    { width: 1440, scripts: false },
  ])("let a person replace the secret in two phases: %j", async ({ width, scripts }) => {
    const window = await open("webhook-secret", { width, theme: "light", scripts });
    const { page } = window;
    await page.getByRole("button", { name: "Make the next secret" }).click();
    const next = (await page.locator("#secret").textContent()) ?? "";
    expect(next).toMatch(/^whsec_/);
    expect(await page.getByRole("button", { name: "Copy" }).count()).toBe(scripts ? 1 : 0);
    await page.getByRole("link", { name: "Go on with step 2" }).click();
    expect(await page.content()).not.toContain(next);
    await page.getByRole("button", { name: "Send a test event" }).click();
    await page.getByText("On its way").waitFor();
    await own.harness.run();
    if (!scripts) await page.getByRole("link", { name: "Look again" }).click();
    await page.getByText("HTTP 204").waitFor();
    await page.getByLabel("The former secret signs for").selectOption("an hour");
    await page.getByRole("button", { name: "Use the next secret" }).click();
    await page.getByText("The next secret is in use.").waitFor();
    own.receiver.secret = next;
    await own.person.client.post(`/v1/service/connections/${own.connectionId}/deliveries/test`);
    await own.harness.run();
    // The former secret signs too, and the receiver's strict parser rejects a list with two signatures.
    expect(own.receiver.requests.at(-1)?.faults).toEqual(["standard signature"]);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("use the reader's time zone for entered times, or UTC without scripts", async () => {
    const typed = "2026-03-01T15:00";
    for (const { scripts, label, sent } of [
      { scripts: true, label: /^Made from \(Asia\/(Calcutta|Kolkata)\)$/, sent: "2026-03-01T09:30:00.000Z" },
      { scripts: false, label: "Made from (UTC)", sent: typed },
    ]) {
      const window = await open("deliveries", { width: 1440, theme: "light", scripts });
      const { page } = window;
      await page.getByLabel(label).fill(typed);
      await page.getByRole("button", { name: "Filter" }).click();
      await page.waitForURL(/since=/);
      expect(new URL(page.url()).searchParams.get("since")).toBe(sent);
      expect(new URL(page.url()).searchParams.get("until")).toBe("");
      expect(await page.getByLabel(label).inputValue()).toBe(typed);
      expect(window.complaints).toEqual([]);
      await window.close();
    }
  });

  test("let a person send the deliveries of a time range again, and show when this is done", async () => {
    const at = addSeconds(api.clock.now(), -3_600);
    await insertDelivery(api.db, own.connectionId, { at });
    const window = await open("recoveries", { width: 360, theme: "dark" });
    const { page } = window;
    const local = addSeconds(at, 19_800 - 60)
      .toISOString()
      .slice(0, 16);
    await page.getByLabel(/^Made from/).fill(local);
    await page.getByRole("button", { name: "See what would be sent" }).click();
    await page.getByText("1 delivery would be sent again.").waitFor();
    await page.getByRole("button", { name: "Send them again" }).click();
    await page.locator(".badge", { hasText: "Under way" }).waitFor();
    while (await stepRecovery({ database: api.db, clock: api.clock }));
    await own.harness.run();
    await page.locator(".badge", { hasText: "Done" }).waitFor();
    expect(own.receiver.requests).toHaveLength(1);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("run no script from a receiver's response, even in self-updating parts", async () => {
    own.receiver.reply = (_, response) => void response.writeHead(500).end(XSS_CORPUS.join("\n"));
    const window = await open("callback", { width: 1440, theme: "light" });
    const { page } = window;
    await page.getByRole("button", { name: "Send a test event" }).click();
    await page.getByText("On its way").waitFor();
    await own.harness.run();
    await page.getByText("HTTP 500").first().waitFor();
    await page.getByText("The answer began with").click();
    expect(await page.locator("#test pre").textContent()).toContain("<script>globalThis.stolen = 1</script>");
    expect(await page.evaluate("globalThis.stolen")).toBeUndefined();
    expect(window.complaints).toEqual([]);
    await window.close();
  });
});
