import { describe, expect, test } from "vitest";
import {
  type ConstraintContext,
  evaluateConstraints,
} from "../../../src/protocol/constraints/evaluate_constraints.ts";
import { outcome } from "../../support/answers.ts";

describe("numeric limits", () => {
  test("max_speed_mps holds up to the limit, but not above it", async () => {
    const limit = { type: "max_speed_mps", max_mps: 15.5 } as const;
    expect(await outcome(limit, { speed_mps: 15.5 })).toBe("holds");
    expect(await outcome(limit, { speed_mps: 15.500001 })).toBe("constraint_denied");
    expect(await outcome(limit, {})).toBe("constraint_unverifiable");
    expect(await outcome(limit, { speed_mps: Number.NaN })).toBe("constraint_unverifiable");
  });

  test("max_amount holds up to the limit in its currency, but not above it", async () => {
    const limit = { type: "max_amount", max_amount: 5000, currency: "USD" } as const;
    expect(await outcome(limit, { amount: 5000, currency: "USD" })).toBe("holds");
    expect(await outcome(limit, { amount: 5000.01, currency: "USD" })).toBe("constraint_denied");
    expect(await outcome(limit, { amount: 1, currency: "usd" })).toBe("constraint_denied");
    expect(await outcome(limit, { amount: 1 })).toBe("constraint_unverifiable");
    expect(await outcome(limit, { currency: "USD" })).toBe("constraint_unverifiable");
  });

  test("max_rate holds while its window contains fewer invocations than its count", async () => {
    const limit = { type: "max_rate", count: 3, window_s: 60 } as const;
    const asked: [string, number][] = [];
    const used = (count: number | undefined): ConstraintContext => ({
      invocations: (certId, windowSeconds) => {
        asked.push([certId, windowSeconds]);
        return Promise.resolve(count);
      },
    });
    expect(await outcome(limit, used(2))).toBe("holds");
    expect(await outcome(limit, used(3))).toBe("constraint_denied");
    expect(await outcome(limit, used(undefined))).toBe("constraint_unverifiable");
    expect(await outcome(limit, {})).toBe("constraint_unverifiable");
    expect(asked).toEqual(Array(3).fill(["cert", 60]));
    expect(await outcome({ ...limit, count: 0 }, used(0))).toBe("constraint_denied");
  });
});

describe("evaluateConstraints", () => {
  const holds = { type: "max_speed_mps", max_mps: 1 } as const;

  test("accepts a certificate without constraints", async () => expect(await outcome([])).toBe("holds"));

  test("requires all constraints to hold, and reports the first constraint that does not hold", async () => {
    const context = { speed_mps: 1 };
    expect(await outcome([holds, { type: "acme:x" }, { ...holds, max_mps: 0 }], context)).toBe(
      "constraint_unknown",
    );
    expect(await outcome([holds, { ...holds, max_mps: 0 }, { type: "acme:x" }], context)).toBe(
      "constraint_denied",
    );
    const refusal = await evaluateConstraints([holds, { type: "acme:x" }], { certId: "c", now: 0, context });
    expect(refusal?.detail).toBe(
      'constraint[1] (acme:x): constraint_unknown: unknown constraint type "acme:x"',
    );
  });

  test.each(["constructor", "toString", "__proto__", "GEO_CIRCLE"])(
    "refuses the unknown constraint type %s",
    async (type) => {
      expect(await outcome({ type })).toBe("constraint_unknown");
    },
  );
});
