import type { Browser } from "playwright-core";
import { describe, expect, test } from "vitest";
import { RENEW } from "../../src/console/core/places.ts";
import { consolePages } from "../../src/console/pages.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { violations } from "./support/axe.ts";
import { program, withChromium } from "./support/in_chromium.ts";
import { expectFaultless } from "./support/looks.ts";
import { pathOf, readerOf, viewerOf } from "./support/visits.ts";
import { type Look, openWindow, TWO_LOOKS, WIDTHS, type Window } from "./support/window.ts";

/** Widths of 1,280 pixels at zoom 400 %, 200 % and 150 %, and the smallest width with tables as tables. */
const ZOOMED = [320, 640, 854, 897];
const ZOOMED_FROM = 1440;

describe.skipIf(program === undefined)("the console in Chromium (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  withChromium((started) => {
    ({ api, browser } = started);
  });

  const open = async (look: Look, viewer: "nobody" | "complete" = "nobody"): Promise<Window> =>
    openWindow(browser, api, { client: (await viewerOf(api, viewer)).client, look });

  test.each(consolePages.filter((each) => !("file" in each)))(
    "page $id has no axe violation and no browser warnings, and fits its window",
    async ({ id }) => {
      const viewer = await readerOf(api, id);
      for (const width of WIDTHS) {
        const window = await openWindow(browser, api, {
          client: viewer.client,
          look: { width, theme: "light" },
        });
        await window.page.goto(`${api.url}${pathOf(id, viewer)}`);
        await expectFaultless(window, width === ZOOMED_FROM ? ZOOMED : []);
        await window.close();
      }
    },
  );

  test.each(TWO_LOOKS)(
    "a person signs up with only the keyboard: $width px, scripts $scripts",
    async (look) => {
      const { width, scripts } = look;
      const window = await open(look);
      const { page } = window;
      const email = `keyboard-${width}-${scripts}@example.test`;
      await page.goto(`${api.url}/console`);
      await page.getByLabel("E-mail address").focus();
      await page.keyboard.type(email);
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/code\?/);
      expect(await page.evaluate("document.activeElement.name")).toBe("code");
      await page.keyboard.type(await api.client().codeFor(email));
      await page.keyboard.press("Enter");
      await page.getByLabel("First name").focus();
      await page.keyboard.type("Ada");
      await page.keyboard.press("Tab");
      await page.keyboard.type("Lovelace");
      await page.keyboard.press("Enter");
      await page.getByRole("radio", { name: /For myself/ }).focus();
      await page.keyboard.press("Space");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/console\?notice=welcome/);
      expect(await page.getByRole("status").first().textContent()).toContain("Your account is ready");
      await page.getByRole("button", { name: "Acting for Ada Lovelace" }).press("Enter");
      await page.getByRole("button", { name: "Sign out" }).press("Enter");
      await page.waitForURL(/signed_out/);
      expect(window.complaints).toEqual([]);
      await window.close();
    },
  );

  test("the focus is visible on every page, from the skip link to the end", async () => {
    for (const id of ["home", "requests"]) {
      const viewer = await readerOf(api, id);
      const window = await openWindow(browser, api, {
        client: viewer.client,
        look: { width: 1440, theme: "light" },
      });
      const { page } = window;
      await page.goto(`${api.url}${pathOf(id, viewer)}`);
      const passed: string[] = [];
      const places = [-1];
      while (passed.length < 100) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate<{ name: string; style: string; place: number }>(
          `(({ activeElement: at }) => ({ name: at.textContent, style: getComputedStyle(at).outlineStyle,
            place: [...document.querySelectorAll("body *")].indexOf(at) }))(document)`,
        );
        if (at.place === -1 || at.place === places[1]) break;
        expect([at.name, at.style]).toEqual([at.name, "solid"]);
        expect([at.name, at.place > (places.at(-1) ?? 0)]).toEqual([at.name, true]);
        places.push(at.place);
        passed.push(at.name);
      }
      expect(passed[0]).toBe("To the content");
      expect(passed).toContainEqual(expect.stringMatching(/^Requests( \d+ waiting)?$/));
      expect(passed.length).toBeGreaterThan(12);
      await window.close();
    }
  });

  test("an invalid field has the focus and a description for screen readers", async () => {
    const window = await open({ width: 1440, theme: "light" });
    await window.page.goto(`${api.url}/v1/auth/email/console`);
    await window.page.getByLabel("E-mail address").fill("ada@nowhere");
    await window.page.getByRole("button", { name: "Send me a code" }).click();
    const field = window.page.locator("[aria-invalid=true]");
    await field.waitFor();
    expect(await window.page.evaluate("document.activeElement.name")).toBe("email");
    const described = (await field.getAttribute("aria-describedby")) ?? "";
    const said = await window.page.evaluate<string>(
      `${JSON.stringify(described)}.split(" ").map((id) => document.getElementById(id).textContent).join(" ")`,
    );
    expect(said).toContain("Check the address");
    expect(await violations(window.page)).toEqual([]);
    await window.close();
  });

  test("a link in an email puts its code into the field, and does not sign in automatically", async () => {
    const window = await open({ width: 1440, theme: "light" });
    const code = "0123456789abcdef".repeat(2);
    await window.page.goto(`${api.url}/v1/auth/email/console/code#code=${code}`);
    expect(await window.page.getByLabel("Code", { exact: true }).inputValue()).toBe(code);
    expect(window.page.url()).not.toContain(code);
    await window.close();
  });

  test("the session's expiry is announced two minutes in advance, and the renewal of the session keeps a form", async () => {
    const window = await open({ width: 1440, theme: "light" }, "complete");
    const { page } = window;
    await page.clock.install();
    await page.goto(`${api.url}/console/sign-out`);
    const renew = page.getByRole("link", { name: "Stay signed in" });
    expect(await renew.isVisible()).toBe(false);
    await page.getByLabel("Everywhere").check();
    await page.clock.fastForward((13 * 60 + 1) * 1000);
    await renew.waitFor();
    expect(await violations(page)).toEqual([]);
    const before = await page.locator('main input[name="csrf"]').inputValue();
    await renew.click();
    await page.getByText("Your session goes on for 15 minutes.").waitFor();
    expect(await page.locator('main input[name="csrf"]').inputValue()).not.toBe(before);
    expect(await page.getByLabel("Everywhere").isChecked()).toBe(true);
    await page.clock.fastForward(6_000);
    expect(await renew.isVisible()).toBe(false);
    await page.locator("main").getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/signed_out/);
    expect(window.complaints).toEqual([]);
    await window.close();
  });

  test("the session's expiry is also announced without scripts, but only in the last minutes", async () => {
    const window = await open({ width: 360, theme: "dark", scripts: false }, "complete");
    const renew = window.page.getByRole("link", { name: "Stay signed in" });
    await window.page.goto(`${api.url}/console`);
    expect(await renew.isVisible()).toBe(false);
    api.clock.advance(13 * 60);
    await window.page.goto(`${api.url}/console`);
    await renew.waitFor();
    await window.close();
  });

  test("the home page updates its pending requests automatically", async () => {
    const seen = await viewerOf(api, "busy");
    const window = await openWindow(browser, api, {
      client: seen.client,
      look: { width: 1440, theme: "light" },
    });
    const { page } = window;
    await page.clock.install();
    await page.goto(`${api.url}/console`);
    await page.getByText("1 request waits for you").waitFor();
    await (await seen.open(`/console/requests/${seen.ids.request}`)).send("deny");
    await page.clock.fastForward(31_000);
    await page.getByText("Nothing waits for you").waitFor();
    await page.getByText("Denied lately").waitFor();
    await seen.client.post("/v1/auth/logout");
    await page.clock.fastForward(31_000);
    await page.waitForTimeout(300);
    expect(await page.getByText("Nothing waits for you").isVisible()).toBe(true);
    // Chromium itself writes a message about the refused update.
    expect(window.complaints).toEqual([expect.stringContaining("status of 401")]);
    await window.close();
  });

  test("an expired session is renewed automatically with scripts, and by a button without scripts", async () => {
    for (const scripts of [true, false]) {
      const window = await open({ width: 1440, theme: "light", scripts }, "complete");
      await window.context.clearCookies({ name: "service_session" });
      await window.page.goto(`${api.url}/console/sign-out`);
      if (!scripts) {
        expect(window.page.url()).toContain(RENEW);
        await window.page.getByRole("button", { name: "Continue" }).click();
      }
      await window.page.waitForURL(/\/console\/sign-out\?notice=renewed/);
      await window.close();
    }
  });

  test("no other site can show a page in a frame", async () => {
    const window = await open({ width: 1440, theme: "light" });
    await window.page.setContent(`<iframe src="${api.url}/v1/auth/email/console"></iframe>`);
    await window.page.waitForTimeout(500);
    expect(window.complaints.join(" ")).toMatch(/frame-ancestors|ERR_BLOCKED_BY_RESPONSE/);
    await window.close();
  });

  test("a cookie from a host of the same site cannot lock a person out", async () => {
    const hosts = await startApi({ shares: api, config: { BASE_URL: "http://console.site.localhost" } });
    const { client } = await hosts.person();
    const context = await browser.newContext();
    const url = `http://console.site.localhost:${hosts.port}/console`;
    const own = ["service_session", "service_csrf"].map((name) => ({
      name,
      value: client.cookie(name) ?? "",
    }));
    await context.addCookies(own.map((each) => ({ ...each, domain: "console.site.localhost", path: "/" })));
    await context.addCookies(
      own.map(({ name }) => ({ name, value: "planted", domain: ".site.localhost", path: "/console" })),
    );
    const page = await context.newPage();
    await page.goto(url);
    await page.getByText("Another site has put a cookie of this site into your browser.").waitFor();
    await page.goto(url);
    await page.getByRole("link", { name: "Agents" }).waitFor();
    const left = await context.cookies();
    expect(left.map(({ name, value }) => ({ name, value }))).toEqual(expect.arrayContaining(own));
    expect(left.filter(({ value }) => value === "planted")).toEqual([]);
    await context.close();
    await hosts.stop();
  });

  test("a host of the same site can plant no cookie that counts, if the base URL is https without a path", async () => {
    const base = "console.site.localhost";
    const hosts = await startApi({ shares: api, config: { BASE_URL: `https://${base}` } });
    const context = await browser.newContext();
    const page = await context.newPage();
    const email = "planted@example.test";
    await page.goto(`http://${base}:${hosts.port}/console`);
    await page.getByLabel("E-mail address").fill(email);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/code\?/);
    await page.keyboard.type(await hosts.client().codeFor(email));
    await page.keyboard.press("Enter");
    await page.getByLabel("First name").waitFor();
    const names = ["session", "refresh", "csrf"].map((name) => `__Host-service_${name}`);
    expect((await context.cookies()).map(({ name }) => name)).toEqual(expect.arrayContaining(names));

    const sibling = await context.newPage();
    await sibling.goto(`http://other.site.localhost:${hosts.port}/healthz`);
    await sibling.evaluate(`for (const name of ["session", "refresh", "csrf"])
      for (const prefix of ["", "__Host-"])
        document.cookie = prefix + "service_" + name + "=planted; Domain=site.localhost; Path=/; Secure"`);
    const planted = (await context.cookies()).filter(({ value }) => value === "planted");
    expect(planted.map(({ name }) => name).sort()).toEqual([
      "service_csrf",
      "service_refresh",
      "service_session",
    ]);

    await page.getByLabel("First name").fill("Ada");
    await page.getByLabel("Last name").fill("Lovelace");
    await page.keyboard.press("Enter");
    await page.getByRole("radio", { name: /For myself/ }).waitFor();
    await context.clearCookies({ name: "__Host-service_session" });
    await page.reload();
    await page.waitForURL(/notice=renewed/);
    expect((await context.cookies()).filter(({ value }) => value === "planted")).toEqual([]);
    await context.close();
    await hosts.stop();
  });
});
