import { describe, expect, test } from "vitest";
import {
  coversScopes,
  expandScopes,
  invalidScopes,
  isRegistrableScope,
  isRequirableScope,
  unregistrableScopes,
} from "../../../src/protocol/documents/scopes.ts";

describe("the rule for registrable scopes", () => {
  test.each([
    "data:read",
    "comms:message:*",
    "custom:orders:refund",
    "custom:acme:inventory:read",
    "custom:a:b:c:d",
    "custom:A.b-c_1:0",
    "custom:orders:*",
    "custom:a:b:c:*",
    `custom:a:${"b".repeat(247)}`,
  ])("allows %s", (scope) => {
    expect(isRegistrableScope(scope)).toBe(true);
  });

  test.each([
    ...["custom:", "custom:refund", "custom:*", "custom::a", "custom:a:", "custom:a::b", "custom:a:b:c:d:e"],
    ...[
      "custom:*:a",
      "custom:a:*:b",
      "custom:a:b*",
      "custom:a:**",
      "custom:.a:b",
      "custom:-a:b",
      "custom:_a:b",
    ],
    ...[
      "custom:a:b ",
      " custom:a:b",
      "custom:a: b",
      "custom:a:b\n",
      "custom:a\0:b",
      "CUSTOM:a:b",
      "custom:a/b:c",
    ],
    ...[
      "custom:a:b\u200b",
      "custom:\u202ea:b",
      "custom:\u0430:b",
      "custom:grün:b",
      "custom:a:b\u00ad",
      "custom:a:é",
    ],
    ...["data:everything", "urn:x", "x-shop:read", "*", "", `custom:a:${"b".repeat(248)}`],
  ])("excludes %j", (scope) => {
    expect(isRegistrableScope(scope)).toBe(false);
  });

  test("also applies to required scopes, which must not be wildcards", () => {
    for (const scope of ["data:read", "custom:orders:refund"]) expect(isRequirableScope(scope)).toBe(true);
    for (const scope of ["data:*", "custom:orders:*", "custom:refund", ""]) {
      expect(isRequirableScope(scope)).toBe(false);
    }
  });

  test("reports each scope that is not registrable once", () => {
    expect(unregistrableScopes(["custom:a", "data:read", "x", "custom:a"])).toEqual(["custom:a", "x"]);
  });

  test("treats * as the last part of a custom scope like any other name, as in the published rules", () => {
    expect(expandScopes(["custom:orders:*"])).toEqual(["custom:orders:*"]);
    expect(coversScopes(["custom:orders:*"], ["custom:orders:refund"])).toEqual(["custom:orders:refund"]);
  });

  test("excludes scopes that certificates from other services may contain", () => {
    expect(invalidScopes(["custom:refund", "custom:grün", "custom:a b"])).toEqual([]);
  });
});
