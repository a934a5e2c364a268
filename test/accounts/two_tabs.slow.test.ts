import type Koa from "koa";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { findChromium, startChromium } from "../support/chromium.ts";

const program = await findChromium();
const EMAIL = "ada@example.com";

/** A page of the API's origin, whose scripts may call the API. */
const blank: Koa.Middleware = async (ctx, next) => {
  if (ctx.path !== "/blank") return next();
  ctx.set("content-security-policy", "default-src 'none'; connect-src 'self'");
  ctx.type = "html";
  ctx.body = "<!doctype html><title>blank</title>";
};

describe.skipIf(program === undefined)("two tabs of one browser (needs Debian's chromium)", () => {
  let api: TestApi;
  let browser: Browser;
  beforeAll(async () => {
    api = await startApi({ pages: [blank] });
    browser = await startChromium(program ?? "");
  });
  afterAll(async () => {
    await browser?.close();
    await api?.stop();
  });

  /** Calls the API from a tab as a page would, with the current CSRF cookie. */
  function call(tab: Page, method: string, path: string, body?: unknown): Promise<number> {
    const request = JSON.stringify({ method, ...(body !== undefined && { body: JSON.stringify(body) }) });
    return tab.evaluate<number>(`(async () => {
      const csrf = /service_csrf=([^;]*)/.exec(document.cookie)?.[1] ?? "";
      const headers = { "content-type": "application/json", "x-service-csrf": csrf };
      return (await fetch(${JSON.stringify(path)}, { ...${request}, headers })).status;
    })()`);
  }

  async function waiting(): Promise<number> {
    const { rows } = await api.db.raw(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows[0].n;
  }

  test("keep working after a simultaneous refresh, with the session and CSRF cookies that the browser keeps", async () => {
    const context = await browser.newContext();
    const [one, two] = [await context.newPage(), await context.newPage()];
    for (const tab of [one, two]) await tab.goto(`${api.url}/blank`);
    expect(await call(one, "POST", "/v1/auth/email/send-code", { email: EMAIL })).toBe(200);
    const code = await api.client().codeFor(EMAIL);
    expect(await call(two, "POST", "/v1/auth/email/verify-code", { email: EMAIL, code })).toBe(200);

    for (let round = 0; round < 5; round += 1) {
      api.clock.advance(900);
      expect(await call(one, "GET", "/v1/auth/session")).toBe(401);
      const held = await api.db.transaction();
      await held("sessions").select("session_id").forUpdate();
      const refreshes = [one, two].map((tab) => call(tab, "POST", "/v1/auth/refresh"));
      await expect.poll(waiting, { timeout: 20_000 }).toBe(2);
      await held.commit();
      expect(await Promise.all(refreshes)).toEqual([200, 200]);
      for (const tab of [one, two]) expect(await call(tab, "GET", "/v1/auth/session")).toBe(200);
    }
    expect(await call(one, "POST", "/v1/auth/logout", { everywhere: true })).toBe(200);
    expect(await call(two, "GET", "/v1/auth/session")).toBe(401);
  }, 120_000);
});
