import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CANONICAL_SCOPES,
  SENSITIVE_SCOPES,
  WILDCARDS,
} from "../../../src/protocol/documents/scope_vocabulary.ts";
import {
  beyondCeiling,
  coversScopes,
  expandScopes,
  intersectScopes,
  invalidScopes,
  scopesGranting,
} from "../../../src/protocol/documents/scopes.ts";
import { compareUtf8 } from "../../../src/protocol/encoding/canonical.ts";

const anyScope = fc.oneof(
  fc.constantFrom(...CANONICAL_SCOPES),
  fc.constantFrom(...WILDCARDS.keys()),
  fc.string({ minLength: 1, maxLength: 5 }).map((name) => `custom:${name}`),
);
const anyScopes = fc.array(anyScope, { maxLength: 10 });

describe("the scope vocabulary", () => {
  test("has 54 scopes, of which 22 are sensitive, and 14 wildcards", () => {
    expect([CANONICAL_SCOPES.size, SENSITIVE_SCOPES.size, WILDCARDS.size]).toEqual([54, 22, 14]);
  });

  test.each([
    ["meeting:*", "attend chat share_screen speak video".split(" ").map((action) => `meeting:${action}`)],
    ["comms:message:*", ["comms:message:read", "comms:message:send"]],
    ["comms:email:*", ["comms:email:read", "comms:email:send"]],
    [
      "comms:*",
      [
        "comms:calendar:read",
        "comms:calendar:write",
        "comms:email:read",
        "comms:email:send",
        "comms:message:read",
        "comms:message:send",
      ],
    ],
    ["transact:*", ["transact:purchase", "transact:sell"]],
    ["payments:*", ["payments:receive", "payments:send"]],
    ["data:*", ["data:read", "data:share"]],
    ["execute:*", ["execute:tool"]],
    ["generate:*", ["generate:content"]],
    ["physical:*", ["physical:enter", "physical:exit"]],
    ["robot:*", ["robot:interact", "robot:move", "robot:operate"]],
    ["drone:*", ["drone:capture", "drone:deliver"]],
    ["vehicle:*", ["vehicle:charge", "vehicle:transport"]],
    ["infrastructure:*", ["infrastructure:monitor"]],
  ])("%s grants only the non-sensitive scopes of its group", (wildcard, scopes) => {
    expect(expandScopes([wildcard])).toEqual(scopes);
  });

  test.each([
    "custom:a",
    "custom:acme:inventory:read",
    "custom:*",
    "custom: ",
    "meeting:attend",
    "actuate:valve",
    "files:write",
  ])("accepts the valid scope %s", (scope) => expect(invalidScopes([scope])).toEqual([]));

  test.each([
    "",
    "custom:",
    "custom",
    "Custom:a",
    "meeting",
    "meeting:",
    "meeting:Attend",
    "meeting:attend ",
    "files:*",
    "identity:*",
    "contract:*",
    "actuate:*",
    "presence:*",
    "comms:calendar:*",
    "*",
    "x-acme:read",
    "urn:acme:read",
    "pretend:unknown:scope",
    "constructor",
  ])("rejects the invalid scope %j", (scope) =>
    expect(invalidScopes(["meeting:attend", scope])).toEqual([scope]),
  );
});

describe("expanding scopes", () => {
  test("returns unknown scopes unchanged", () => {
    expect(expandScopes(["pretend:unknown:scope"])).toEqual(["pretend:unknown:scope"]);
  });

  test("sorts by code point, removes duplicates, and leaves an expanded list unchanged", () => {
    fc.assert(
      fc.property(anyScopes, (scopes) => {
        const expanded = expandScopes(scopes);
        expect(expanded).toEqual([...new Set(expanded)].sort(compareUtf8));
        expect(expandScopes(expanded)).toEqual(expanded);
      }),
    );
  });

  test("sorts by code point, not by UTF-16 units", () => {
    expect(expandScopes(["custom:\u{1f600}", "custom:\uffee"])).toEqual([
      "custom:\uffee",
      "custom:\u{1f600}",
    ]);
  });

  test("returns a scope if and only if the list contains a scope that grants it", () => {
    fc.assert(
      fc.property(anyScopes, anyScope, (scopes, scope) => {
        const named = scopesGranting(scope).some((name) => scopes.includes(name));
        expect(named).toBe(expandScopes(scopes).includes(scope));
      }),
    );
  });

  test("never adds a sensitive scope that is not in the list", () => {
    fc.assert(
      fc.property(anyScopes, (scopes) => {
        const unnamed = expandScopes(scopes).filter(
          (scope) => SENSITIVE_SCOPES.has(scope) && !scopes.includes(scope),
        );
        expect(unnamed).toEqual([]);
      }),
    );
  });
});

describe("the effective scope", () => {
  test("contains the scopes that every list grants", () => {
    expect(
      intersectScopes(["meeting:attend", "files:read"], ["meeting:*"], ["meeting:*", "comms:*"]),
    ).toEqual(["meeting:attend"]);
  });

  test("omits a sensitive scope if one list contains only its wildcard", () => {
    expect(intersectScopes(["meeting:record"], ["meeting:*"])).toEqual([]);
  });

  test("equals the expansion of a single list, and is empty without lists", () => {
    expect(intersectScopes(["payments:*"])).toEqual(["payments:receive", "payments:send"]);
    expect(intersectScopes()).toEqual([]);
  });

  test("never exceeds any of the lists", () => {
    fc.assert(
      fc.property(anyScopes, anyScopes, anyScopes, (a, b, c) => {
        const effective = intersectScopes(a, b, c);
        for (const ceiling of [a, b, c]) expect(coversScopes(ceiling, effective)).toEqual([]);
      }),
    );
  });
});

describe("a ceiling", () => {
  test("reports each expanded scope that exceeds the ceiling", () => {
    expect(coversScopes(["meeting:attend"], ["meeting:*", "files:write"])).toEqual([
      "files:write",
      "meeting:chat",
      "meeting:share_screen",
      "meeting:speak",
      "meeting:video",
    ]);
  });

  test("with a wildcard grants the same wildcard, but no sensitive scope of its group", () => {
    expect(coversScopes(["meeting:*"], ["meeting:*"])).toEqual([]);
    expect(coversScopes(["meeting:*"], ["meeting:record"])).toEqual(["meeting:record"]);
  });

  test("grants every custom scope, but no other scope, if it contains custom:* and belongs to an account", () => {
    const ceiling = ["data:read", "custom:*"];
    expect(beyondCeiling(ceiling, ["data:read", "custom:orders:refund", "custom:*"])).toEqual([]);
    expect(beyondCeiling(ceiling, ["data:write", "custom", "files:read"])).toEqual([
      "custom",
      "data:write",
      "files:read",
    ]);
    expect(beyondCeiling(["custom:a"], ["custom:a", "custom:ab"])).toEqual(["custom:ab"]);
    expect(coversScopes(ceiling, ["custom:orders:refund"])).toEqual(["custom:orders:refund"]);
  });
});
