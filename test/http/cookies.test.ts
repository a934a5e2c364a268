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
    expect(createCookies(names, baseUrl).write(change).split("; ").includes("Secure")).toBe(secure);
  });

  test("have the base URL's path, except for the refresh cookie, which has the refresh call's path", () => {
    const cookies = createCookies(names, "https://example.com/authority/");
    expect(cookies.write(change)).toBe(
      "service_session=t0ken; Max-Age=900; Path=/authority/; HttpOnly; Secure; SameSite=Lax",
    );
    expect(cookies.write({ ...change, name: "refresh" })).toContain("Path=/authority/v1/auth/refresh;");
  });

  test("cannot be read by scripts, except for the CSRF cookie", () => {
    const { write } = createCookies(names, "https://example.com");
    expect(write({ ...change, name: "csrf" })).not.toContain("HttpOnly");
    for (const name of ["session", "refresh"] as const) {
      expect(write({ ...change, name })).toContain("HttpOnly");
    }
  });

  test("with an empty value expire immediately, whatever age is given", () => {
    expect(createCookies(names, "https://example.com").write({ ...change, value: "" })).toContain(
      "Max-Age=0;",
    );
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
});
