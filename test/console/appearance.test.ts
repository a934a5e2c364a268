import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { browserOf } from "./support/console.ts";

const api = runningApi();
const SIGN_IN = "/v1/auth/email/console";

describe("a theme", () => {
  test("stays in the browser until the person chooses their device's theme again", async () => {
    for (const client of [api.client(), (await api.person()).client]) {
      const browser = browserOf(api, client);
      const start = await browser.open(SIGN_IN);
      const link = start.element("link", /href="([^"]+)">Appearance</);
      expect(link).toBe(`/console/appearance?back=${encodeURIComponent(start.path)}`);
      const first = await browser.open("/console/appearance?back=%2Fconsole%2Fappearance");
      expect(first.text).toContain('<html lang="en"><head>');
      expect(first.text).toContain('value="auto" aria-pressed="true"');
      const dark = await first.send("theme", { theme: "dark" });
      expect(dark.text).toContain('<html lang="en" data-theme="dark">');
      expect(dark.text).toContain('<meta name="color-scheme" content="dark">');
      expect(dark.text).toContain('value="dark" aria-pressed="true"');
      expect((await browser.open(SIGN_IN)).text).toContain('data-theme="dark"');
      const auto = await dark.send("theme", { theme: "auto" });
      expect(auto.text).not.toContain("data-theme=");
      expect(auto.text).toContain('<meta name="color-scheme" content="light dark">');
    }
  });

  test("can only be one of those that exist, and leads back to the same page", async () => {
    const { client } = await api.person();
    const browser = browserOf(api, client);
    const from = await browser.open("/console/requests?status=denied");
    const page = await browser.open(from.element("link", /href="([^"]+)">Appearance</));
    const dark = await page.send("theme", { theme: "dark" });
    expect(dark.path).toBe("/console/requests?status=denied");
    const odd = await page.send("theme", { theme: '"><script>', back: "//elsewhere.example" });
    expect([odd.path, odd.text.includes("data-theme=")]).toEqual(["/console", false]);
    const planted = await client.get("/console", {
      headers: { cookie: `service_session=${client.cookie("service_session")}; service_theme=pink` },
    });
    expect([planted.status, planted.text.includes("data-theme=")]).toEqual([200, false]);
  });
});

describe("the style sheet", () => {
  test("comes with the page for a browser from elsewhere, and the policy allows only this style sheet", async () => {
    const client = api.client();
    for (const site of ["none", "cross-site", "same-site"]) {
      const { text, headers } = await client.get(SIGN_IN, { headers: { "sec-fetch-site": site } });
      const style = /<style>(.*?)<\/style>/s.exec(text)?.[1] ?? "";
      const source = `'sha256-${hash("sha256", style, "base64")}'`;
      expect(style).toContain(":root{");
      expect(headers.get("content-security-policy")).toContain(`style-src 'self' ${source};`);
      expect(text).not.toContain('rel="stylesheet"');
      const later = await client.get(SIGN_IN, { headers: { "sec-fetch-site": "same-origin" } });
      const file = /<link rel="stylesheet" href="([^"]+)">/.exec(later.text)?.[1] ?? "";
      expect((await client.get(file)).text).toBe(style);
    }
  });

  test("comes as a file for a browser that already has a page", async () => {
    for (const headers of [{ "sec-fetch-site": "same-origin" }, {}]) {
      const { text, headers: answered } = await api.client().get(SIGN_IN, { headers });
      expect(text).toMatch(/<link rel="stylesheet" href="\/console\/assets\/style-/);
      expect(text).not.toContain("<style");
      expect(answered.get("content-security-policy")).toContain("style-src 'self';");
    }
  });
});
