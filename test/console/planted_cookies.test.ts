import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { browserOf } from "./support/console.ts";

const api = runningApi();

/** Opens a page as a signed-in person whose browser also sends another host's cookie. */
async function openWith(name: string, path: string, order: "first" | "last" = "first") {
  const { client } = await api.person();
  const own = ["service_session", "service_csrf", "service_refresh", "service_sign_in"]
    .map((each) => [each, client.cookie(each)])
    .filter(([, value]) => value !== undefined)
    .map((pair) => pair.join("="));
  const planted = `${name}=${"p".repeat(43)}`;
  const cookie = (order === "first" ? [planted, ...own] : [...own, planted]).join("; ");
  const answer = await client.get(path, { headers: { cookie } });
  return { answer, browser: browserOf(api, client), removed: answer.headers.getSetCookie() };
}

describe("a cookie that another host planted", () => {
  test.each(["first", "last"] as const)(
    "cannot replace the pages by JSON: CSRF cookie sent %s",
    async (order) => {
      for (const path of ["/console", "/console/sign-out", "/console/nowhere", "/v1/auth/email/console"]) {
        const { answer } = await openWith("service_csrf", path, order);
        expect([path, answer.headers.get("content-type")]).toEqual([path, "text/html; charset=utf-8"]);
      }
      expect((await openWith("service_csrf", "/console", order)).answer.status).toBe(200);
    },
  );

  test.each(["service_session", "service_refresh", "service_sign_in"])(
    "cannot replace the pages by JSON: %s",
    async (name) => {
      for (const path of ["/console", "/v1/auth/refresh/console", "/v1/auth/email/console"]) {
        const { answer } = await openWith(name, path);
        expect([path, answer.headers.get("content-type")]).toEqual([path, "text/html; charset=utf-8"]);
        expect(answer.status).toBeLessThan(500);
      }
    },
  );

  test("leads to an error page that says what to do, if it is a session cookie", async () => {
    const { answer } = await openWith("service_session", "/console");
    expect(answer.status).toBe(400);
    expect(answer.text).toContain("Another site has put a cookie of this site into your browser.");
  });

  test("does not send a form: the person confirms it on a page with a valid token", async () => {
    const { browser, answer } = await openWith("service_csrf", "/console/sign-out");
    const token = /name="csrf" value="([^"]*)"/.exec(answer.text)?.[1];
    expect(token ?? "").toBe("");
    const body = "form=sign_out&where=here&csrf=";
    const headers = { origin: "http://127.0.0.1", "content-type": "application/x-www-form-urlencoded" };
    const held = await browser.client.call("POST", "/console/sign-out", { body, headers, csrf: false });
    expect(held.text).toContain("Send it again?");
    expect(held.text).toContain(`name="csrf" value="${browser.client.cookie("service_csrf")}"`);
  });

  test.each(["/console", "/v1/auth/session"])(
    "disappears with the next response, also of %s",
    async (path) => {
      const { removed } = await openWith("service_session", path);
      // The API has an IP address, and the cookie of the service itself stays.
      const prefixes = path
        .split("/")
        .slice(1)
        .flatMap((_, index, all) => {
          const prefix = `/${all.slice(0, index + 1).join("/")}`;
          return [prefix, `${prefix}/`];
        });
      expect(removed).toEqual(prefixes.map((each) => `service_session=; Max-Age=0; Path=${each}`));
    },
  );
});
