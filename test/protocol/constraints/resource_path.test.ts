import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ConstraintContext } from "../../../src/protocol/constraints/evaluate_constraints.ts";
import { hidesDotSegment, isWithin, normalizePath } from "../../../src/protocol/constraints/resource_path.ts";
import { outcome } from "../../support/answers.ts";

describe("resource_path", () => {
  const docs = { type: "resource_path", resource_id: "repo", path_prefix: "/docs" } as const;
  const request = (path: string, resource_id = "repo"): ConstraintContext => ({ resource_id, path });

  test.each(["/docs", "/docs/", "/docs/a", "/docs/a/b%2f..", "/docs/%2e%2e"])(
    "holds for the path %s",
    async (path) => {
      expect(await outcome(docs, request(path))).toBe("holds");
    },
  );

  test.each([
    "/",
    "/doc",
    "/docsx",
    "/Docs",
    "/docs/../etc",
    "/docs/./a",
    "/docs//a",
    "//docs",
    "docs",
    "",
    "/docs\\a",
    "/docs/a\0",
    "/docs//",
    "/docs/..",
  ])("denies the path %j", async (path) => {
    expect(await outcome(docs, request(path))).toBe("constraint_denied");
  });

  test("denies a different resource id, and compares ids byte by byte", async () => {
    expect(await outcome(docs, request("/docs", "Repo"))).toBe("constraint_denied");
    expect(await outcome({ ...docs, resource_id: "caf\u00e9" }, request("/docs", "cafe\u0301"))).toBe(
      "constraint_denied",
    );
  });

  test("holds for the whole resource if it has no prefix, with or without a path in the request", async () => {
    const whole = { type: "resource_path", resource_id: "repo" } as const;
    expect(await outcome(whole, request("/any/thing"))).toBe("holds");
    expect(await outcome(whole, { resource_id: "repo" })).toBe("holds");
    expect(await outcome(whole, { path: "/a" })).toBe("constraint_unverifiable");
  });

  test("reports a request without a path as unverifiable, and denies a prefix that is not a path", async () => {
    expect(await outcome(docs, { resource_id: "repo" })).toBe("constraint_unverifiable");
    expect(await outcome({ ...docs, path_prefix: "" }, request("/"))).toBe("constraint_denied");
    expect(await outcome({ ...docs, path_prefix: "docs" }, request("/docs"))).toBe("constraint_denied");
  });

  test("denies every request if no path is within all prefixes", async () => {
    const beside = [docs, { ...docs, path_prefix: "/src" }];
    expect(await outcome(beside, request("/docs"))).toBe("constraint_denied");
    expect(await outcome(beside, {})).toBe("constraint_denied");
  });

  test("requires the path to be within the narrowest of nested prefixes", async () => {
    const nested = [
      docs,
      { ...docs, path_prefix: "/docs/a" },
      { type: "resource_path", resource_id: "repo" },
    ];
    expect(await outcome(nested, request("/docs/a/b"))).toBe("holds");
    expect(await outcome(nested, request("/docs/b"))).toBe("constraint_denied");
  });

  test("normalizes a path to one form, and does not change that form again", () => {
    const piece = fc.constantFrom("a", "..", ".", "", "%2e", "b c", "\\", "é");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 5 }), fc.boolean(), (pieces, trailing) => {
        const normal = normalizePath(`/${pieces.join("/")}${trailing ? "/" : ""}`);
        if (normal === undefined) return;
        expect(normalizePath(normal)).toBe(normal);
        expect(isWithin("/", normal)).toBe(true);
        expect(isWithin(normal, normal)).toBe(true);
        expect(normal.split("/")).not.toContain("..");
      }),
    );
  });
});

describe("hidesDotSegment", () => {
  test.each([
    "/pub/%2e%2e/admin",
    "/pub/%2E./admin",
    "/pub/.%2e/admin",
    "/pub/%2e/admin",
    "/pub/%2e%2e",
    "%2e%2e/admin",
    "/pub/..%2fadmin",
    "/pub%2f..%2fadmin",
    "/pub/..%5cadmin",
    "/pub/%252e%252e/admin",
    "/pub/%25252e%25252e/admin",
    "/pub/%2525252525252e/admin",
    "/pub/%252e./admin",
    "/pub/..;/admin",
    "/pub/..;a=b/admin",
    "/pub/..#/admin",
    "/pub/..%23x",
    "/pub/%2e%2e%3bx/admin",
    "/pub/..%3fx/admin",
    "/pub/..%20/admin",
    "/pub/.. ",
    "/pub/..%00/admin",
    "/pub/x%0d%0ay",
    "/pub/%u002e%u002e/admin",
    "/pub/%c0%ae%c0%ae/admin",
    "/pub/%e0%80%ae./admin",
    "/pub/..%c0%afadmin",
    "/pub/․․/admin",
    "/pub/․./admin",
    "/pub/‥/admin",
    "/pub/．．/admin",
    "/pub/﹒﹒/admin",
    "/pub/%e2%80%a4%E2%80%A4/admin",
    "/pub/%25e2%2580%25a5/admin",
    "/pub/..／admin",
    "/pub/..%ef%bc%8fadmin",
    "/pub/..＼admin",
    "/pub/％2e％2e/admin",
    "/pub/％２ｅ./admin",
    "/pub/..；x/admin",
    "/pub/..　/admin",
  ])("finds a dot segment in %s", (path) => {
    expect(hidesDotSegment(path)).toBe(true);
  });

  test.each([
    "/",
    "",
    "/pub",
    "/pub/a%20b/%C3%A9",
    "/pub/a%2fb",
    "/pub/v1..2/...",
    "/pub/.hidden/x.;y",
    "/pub/100%25",
    "/pub/50%",
    "/pub/%zz",
    "/pub/a;b=../c",
    "/price․list/a．b",
    "/pub/wait…/x",
    "/pub/é%C3%A9/日本語/％",
    "/pub/℀/½",
    "/pub/a#../c",
  ])("finds none in %s", (path) => {
    expect(hidesDotSegment(path)).toBe(false);
  });

  test.each(["/pub/../admin", "/pub/./x", "/pub/../%2e%2e"])("leaves %s to normalizePath", (path) => {
    expect(hidesDotSegment(path)).toBe(false);
    expect(normalizePath(path)).toBeUndefined();
  });

  test("finds every dot segment that decoding an accepted path a few times shows", () => {
    const part = fc.constantFrom(".", "..", "/", "%2e", "%2E", "%2f", "%252e", "%25", "a", ";", "%5c", "2e");
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const path = `/pub/${parts.join("")}`;
        if (normalizePath(path) === undefined || hidesDotSegment(path)) return;
        let text = path;
        for (let round = 0; round < 5; round++) {
          text = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex) =>
            String.fromCharCode(Number.parseInt(hex, 16)),
          );
          expect(new URL(text.replaceAll("#", "").replaceAll("?", ""), "http://x").pathname).toMatch(
            /^\/pub/,
          );
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
