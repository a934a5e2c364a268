import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { createCookies } from "../../src/http/cookies.ts";
import { createNames } from "../../src/input/names.ts";

const names = createNames("service");
const change = { name: "session", value: "t0ken", maxAgeSeconds: 900 } as const;

describe("cookies", () => {
  test.each([
    ["https://api.example.com", true],
    ["https://localhost", true],
    ["http://api.example.com", true],
    ["http://10.0.0.1:8080", true],
    ["http://localhost.example.com", true],
    ["http://127.0.0.1:8080", false],
    ["http://127.9.9.9", false],
    ["http://localhost:8080", false],
    ["http://[::1]:8080", false],
  ])("have the attribute Secure for %s: %s", (baseUrl, secure) => {
    for (const written of createCookies(names, baseUrl).write(change)) {
      expect(written.split("; ").includes("Secure")).toBe(secure);
    }
  });

  test("have the base URL's path, except for the refresh cookie, which has the refresh call's path", () => {
    const cookies = createCookies(names, "https://example.com/authority/");
    expect(cookies.write(change)).toEqual([
      "service_session=t0ken; Max-Age=900; Path=/authority/; HttpOnly; Secure; SameSite=Lax",
    ]);
    expect(cookies.write({ ...change, name: "refresh" }).join()).toContain(
      "Path=/authority/v1/auth/refresh;",
    );
  });

  test("cannot be read by scripts, except for the CSRF cookie", () => {
    const { write } = createCookies(names, "https://example.com");
    expect(write({ ...change, name: "csrf" }).join()).not.toContain("HttpOnly");
    for (const name of ["session", "refresh"] as const) {
      for (const written of write({ ...change, name })) expect(written).toContain("HttpOnly");
    }
  });

  test("with an empty value expire immediately, whatever age is given", () => {
    const written = createCookies(names, "https://example.com").write({ ...change, value: "" });
    expect(written).toHaveLength(2);
    for (const each of written) expect(each).toContain("Max-Age=0;");
  });

  test.each([
    ["service_session=a", "a"],
    ["other=x; service_session=a; more=y", "a"],
    ["service_session=a; service_session=a", "a"],
    ["service_session=%61;service_session=a", "a"],
    ["xservice_session=a", undefined],
    ["service_session", undefined],
    ["", undefined],
    [undefined, undefined],
  ])("have the right value when read from a header: %j contains %j", (header, value) => {
    expect(createCookies(names, "https://example.com").read(header, "session")).toBe(value);
  });

  test.each(["service_session=a; service_session=b", "service_session=b; x=y;service_session="])(
    "cause a refusal if a header has a name twice with different values: %j",
    (header) => {
      const { read } = createCookies(names, "https://example.com");
      expect(() => read(header, "session")).toThrow(
        expect.objectContaining({ code: "invalid_request", status: 400 }),
      );
      expect(read(header, "refresh")).toBeUndefined();
    },
  );

  describe("names", () => {
    test.each([
      ["https://example.com", true],
      ["https://example.com:8443/", true],
      ["https://example.com/authority", false],
      ["http://127.0.0.1:8080", false],
      ["http://example.com", false],
    ])("begin with __Host- for %s: %s", (baseUrl, prefixed) => {
      const cookies = createCookies(names, baseUrl);
      for (const name of ["session", "refresh", "csrf", "sign_in"] as const) {
        const own = prefixed ? `__Host-service_${name}` : `service_${name}`;
        expect(cookies.nameOf(name)).toBe(own);
        expect(cookies.write({ ...change, name }).map((each) => each.split("=")[0])).toEqual(
          prefixed ? [own, `service_${name}`] : [own],
        );
        expect(cookies.read(`${own}=a`, name)).toBe("a");
      }
    });

    test("have no other path and no domain with the prefix, because browsers would refuse the cookies", () => {
      const { write } = createCookies(names, "https://example.com");
      for (const name of ["session", "refresh", "csrf", "sign_in"] as const) {
        const [own = ""] = write({ ...change, name });
        expect(own).toMatch(/^__Host-.*; Path=\/; .*Secure/);
        expect(own).not.toContain("Domain");
      }
    });

    test.each([
      ["service_session=a", "a", "the browser has no cookie with the prefix"],
      ["service_session=a; __Host-service_session=b", "b", "the new name counts"],
      ["service_session=a; service_session=c; __Host-service_session=b", "b", "former names are ignored"],
      ["service_session=a; __Host-service_csrf=b", undefined, "the browser has another cookie of a session"],
      [
        "service_session=a; __Host-service_refresh=b",
        undefined,
        "the browser has another cookie of a session",
      ],
      ["service_session=a; __Host-service_sign_in=b", "a", "the sign-in cookie is of no session"],
    ])("count by version: %s is read as %s, because %s", (header, value, _reason) => {
      expect(createCookies(names, "https://example.com").read(header, "session")).toBe(value);
    });

    test("with the prefix do not count if the base URL has a path", () => {
      const { read } = createCookies(names, "https://example.com/a");
      expect(read("service_session=a; __Host-service_session=b", "session")).toBe("a");
    });

    test("without the prefix can be read separately, if they differ and are unique", () => {
      const { readFormer } = createCookies(names, "https://example.com");
      const read = (header: string) => readFormer(header, "refresh");
      expect(read("service_refresh=a; __Host-service_refresh=b")).toBe("a");
      for (const header of ["x=1", "service_refresh=b", "service_refresh=a; service_refresh=c"]) {
        expect(read(`${header}; __Host-service_refresh=b`)).toBeUndefined();
      }
    });
  });

  describe("removal of foreign cookies", () => {
    const removals = (baseUrl: string, cookie: string | undefined, url = "/console/agents?a=/b") => {
      const request = { url, headers: cookie === undefined ? {} : { cookie } } as IncomingMessage;
      return createCookies(names, baseUrl).removeForeign(request);
    };
    const doubled = "service_csrf=a; service_csrf=b";

    test("covers every domain and path that browsers may have sent them for", () => {
      const removed = removals("https://api.example.com", doubled, "/console?a=/b");
      expect(removed).toEqual(
        ["/", "/console", "/console/"].flatMap((path) =>
          ["api.example.com", "example.com", undefined]
            .filter((domain) => domain !== undefined || path !== "/")
            .map((domain) => {
              const attribute = domain === undefined ? "" : `Domain=${domain}; `;
              return `service_csrf=; Max-Age=0; ${attribute}Path=${path}; Secure`;
            }),
        ),
      );
    });

    test("removes nothing if the service can tell which value is its own", () => {
      for (const cookie of [undefined, "", "service_csrf=a", "service_csrf=a; service_csrf=a; x=1; x=2"]) {
        expect(removals("https://api.example.com", cookie)).toEqual([]);
      }
    });

    test.each(["https://example.com/base", "https://example.com"])(
      "keeps the service's own cookies: %s",
      (baseUrl) => {
        const { pathname } = new URL(baseUrl);
        const own = pathname === "/" ? "/" : `${pathname}/`;
        const removed = removals(baseUrl, doubled, `${own}console`);
        expect(removed.some((each) => each.includes(`Path=${own};`))).toBe(true);
        expect(removed.filter((each) => !each.includes("Domain="))).not.toContain(
          `service_csrf=; Max-Age=0; Path=${own}; Secure`,
        );
      },
    );

    test("keeps a response's headers small, whatever the URL contains", () => {
      const all = ["session", "csrf", "refresh", "sign_in"].map(
        (name) => `service_${name}=a; service_${name}=b`,
      );
      for (const url of [`/${"a/".repeat(5_000)}`, "//", "/a;b/\u00ff/\x01", "", "*"]) {
        const removed = removals("https://a.b.c.d.example.com", all.join("; "), url);
        expect(removed.length).toBeLessThanOrEqual(24);
        expect(removed.join("").length).toBeLessThan(3_000);
      }
    });

    test.each(["http://127.0.0.1", "http://[::1]:80", "https://192.0.2.1", "http://localhost:80"])(
      "names no domain for an address or a single label: %s",
      (baseUrl) => {
        expect(removals(baseUrl, doubled).join("")).not.toContain("Domain=");
      },
    );
  });
});
