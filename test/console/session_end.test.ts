import { describe, expect, test } from "vitest";
import { RENEW, SIGN_IN } from "../../src/console/core/places.ts";
import { runningApi } from "../support/api.ts";
import { browserOf } from "./support/console.ts";

const DAY = 24 * 60 * 60;
const api = runningApi({ config: { TRUSTED_PROXIES: ["127.0.0.0/8"] } });

describe("a session in the console", () => {
  test("ends 30 days after the sign-in, although the person renews it every day", async () => {
    const browser = browserOf(api, (await api.person()).client);
    const renew = async () => {
      const page = await browser.open("/console/sign-out");
      expect(page.path).toContain(RENEW);
      return (await page.send("renew")).path;
    };
    for (let day = 1; day < 30; day += 1) {
      api.clock.advance(DAY);
      expect(await renew()).toBe("/console/sign-out?notice=renewed");
    }
    api.clock.advance(DAY - 1);
    expect(await renew()).toBe("/console/sign-out?notice=renewed");
    api.clock.advance(1);
    expect(await renew()).toBe(`${SIGN_IN}?return_to=%2Fconsole%2Fsign-out`);
  });

  test.each([
    ["203.0.113.7", "2001:db8::7", "IPv4 and IPv6"],
    ["203.0.113.7", "198.51.100.20", "Wi-Fi and a mobile network"],
  ])("stays when two tabs renew it from %s and %s (%s)", async (first, second, _networks) => {
    const { client } = await api.person();
    api.clock.advance(900);
    const other = api.client();
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      other.setCookie(name, client.cookie(name) ?? "");
    }
    const tabs = [browserOf(api, client), browserOf(api, other)];
    const pages = await Promise.all(tabs.map((tab) => tab.open(RENEW)));
    const renewed = await Promise.all(
      pages.map((page, tab) =>
        page.send("renew", {}, { "x-forwarded-for": tab === 0 ? first : second, "user-agent": "Browser/1" }),
      ),
    );
    expect(renewed.map(({ path }) => path)).toEqual(Array(2).fill("/console?notice=renewed"));
    expect(other.cookie("service_session")).toBe(client.cookie("service_session"));
    for (const tab of tabs) expect((await tab.open("/console/sign-out")).path).toBe("/console/sign-out");
  });
});
