import { describe, expect, test } from "vitest";
import { type DecisionFacts, neededFor, ruleTables } from "../../src/console/elements/decisions.ts";
import { texts } from "../../src/console/texts/texts.ts";
import { decisionReasons, decisionRules, explainDecision } from "../../src/proofs/decide/reasons.ts";
import { unescaped } from "./support/console.ts";

const CERTIFICATE = {
  approved_scope: ["data:read"],
  issued_at: "2026-05-01T10:00:00.000Z",
  expires_at: "2026-05-02T10:00:00.000Z",
  revoked_at: null,
  revoke_reason: null,
  cert_json: { constraints: [{ type: "max_amount", max_amount: 10, currency: "EUR" }] },
};
const FACTS: DecisionFacts = {
  requiredScope: "payments:send",
  certificate: CERTIFICATE,
  ceiling: ["files:read"],
  detail: "constraint_denied: cert 0: too much",
};
const REFUSING = [...decisionReasons.deny, ...decisionReasons.indeterminate];
const wordsOf = (piece: { toString(): string }) => unescaped(String(piece).replaceAll(/<[^>]*>/g, " "));

describe("the explanation of a decision", () => {
  test("has texts for exactly the existing rules and reasons", () => {
    expect(Object.keys(texts.explain.rules).sort()).toEqual(decisionRules.map(({ name }) => name).sort());
    const codes = [...REFUSING, "no_active_delegation", "credits_exhausted"];
    expect(Object.keys(texts.explain.neededFor).sort()).toEqual(codes.sort());
    expect(Object.keys(texts.decisions.reasons).sort()).toEqual([...REFUSING].sort());
  });

  test.each([...REFUSING, "authorized", undefined])(
    "lists the result of each rule in order for %s",
    (reason) => {
      const text = wordsOf(ruleTables(texts, reason));
      const said = [...text.matchAll(/(Passed|Failed|Not reached)/g)].map(([word]) => word);
      const outcomes = explainDecision(reason).map(({ outcome }) => texts.explain.outcomes[outcome]);
      expect(said).toEqual(outcomes);
      const places = decisionRules.map(({ name }) => text.indexOf(String(texts.explain.rules[name])));
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      expect(places[0]).toBeGreaterThan(0);
    },
  );

  test.each([
    ["not_delegated", ["payments:send", "data:read"]],
    ["ceiling_exceeded", ["payments:send", "files:read"]],
    ["delegation_expired", ["2 May 2026, 10:00"]],
    ["not_yet_valid", ["1 May 2026, 10:00"]],
    ["constraint_denied", ["the amount is at most 10 EUR", "cert 0: too much"]],
    ["no_active_delegation", ["2 May 2026, 10:00"]],
  ])("contains the known values for %s", (reason, values) => {
    for (const value of values) expect(wordsOf(neededFor(texts, reason, FACTS))).toContain(value);
  });

  test("shows the time and reason of a revocation, but no expiry", () => {
    const certificate = { ...CERTIFICATE, revoked_at: "2026-05-01T12:00:00.000Z", revoke_reason: "lost" };
    const text = wordsOf(neededFor(texts, "delegation_revoked", { certificate }));
    expect(text).toContain("1 May 2026, 12:00");
    expect(text).toContain("lost");
    expect(text).not.toContain("2 May");
  });

  test.each(REFUSING)("works without any known value for %s", (reason) => {
    expect(wordsOf(neededFor(texts, reason, {}))).toContain(
      String(texts.explain.neededFor[reason]?.slice(0, 20)),
    );
  });

  test('uses the general text for an unknown reason, even "constructor"', () => {
    expect(wordsOf(neededFor(texts, "constructor", FACTS))).toContain(texts.explain.other);
  });
});
