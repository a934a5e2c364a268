import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Denied, explain, type Keeping } from "../../../src/proofs/decide/explanation.ts";
import { DENIALS, decisionReasons, REASONS } from "../../../src/proofs/decide/reasons.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import {
  type ConstraintContext,
  evaluateConstraints,
} from "../../../src/protocol/constraints/evaluate_constraints.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { certify, testKey } from "../../support/chains.ts";

const NOW = 1_780_000_000;
const MOST_BYTES = 2_500;
const box = createSecretBox(Buffer.alloc(32, 1));
const keeping = (values: Keeping["values"] = "full", connection = "c"): Keeping => ({
  values,
  mac: (fact, value) => box.mac(value, `explanation/${connection}/${fact}`),
});

/** Returns the explanation of a denial by one constraint, or `undefined` if the constraint holds. */
async function explained(
  constraint: Constraint,
  context: ConstraintContext,
  values: Keeping["values"] = "full",
  now = NOW,
) {
  const refusal = await evaluateConstraints([constraint], { certId: "c", now, context });
  if (refusal === undefined) return undefined;
  const { code, detail, failed } = refusal;
  const denied: Denied = {
    reason: DENIALS[code],
    chain: [],
    verification: {
      violation: { code, detail, certificate: 0 },
      ...(failed && { failed_constraint: failed }),
    },
    context,
    now,
  };
  return explain(denied, keeping(values));
}

const AMOUNT: Constraint = { type: "max_amount", max_amount: 250, currency: "EUR" };
const CIRCLE: Constraint = { type: "geo_circle", lat: 52.5, lon: 13.4, radius_m: 1_000 };
const BOX: Constraint = {
  ...{ type: "geo_bbox", min_lat: 50, min_lon: 10, max_lat: 51, max_lon: 11 },
  ...{ min_alt_m: 100, max_alt_m: 1_000 },
};
const POLYGON: Constraint = {
  type: "geo_polygon",
  points: [
    [0, 0],
    [0, 1],
    [1, 1],
  ],
};
const WINDOW: Constraint = { type: "time_window", start: "09:00", end: "17:00", tz: "Europe/Berlin" };
const SPEED: Constraint = { type: "max_speed_mps", max_mps: 10 };
const RATE: Constraint = { type: "max_rate", count: 3, window_s: 60 };
const PATH: Constraint = { type: "resource_path", resource_id: "disk", path_prefix: "/a" };
const eur = (amount: number) => ({ amount, currency: "EUR" });
const place = (latitude: number, longitude: number, altitude_m?: number) => ({
  latitude,
  longitude,
  ...(altitude_m !== undefined && { altitude_m }),
});

describe("the explanation of a failed constraint", () => {
  test.each<[Constraint, ConstraintContext, ConstraintContext, Record<string, string>]>([
    [AMOUNT, eur(250), eur(250.01), { amount: "250.01", currency: "EUR" }],
    [AMOUNT, eur(0), { amount: 1, currency: "USD" }, { amount: "1", currency: "USD" }],
    [SPEED, { speed_mps: 10 }, { speed_mps: 10.5 }, { speed_mps: "10.5" }],
    [CIRCLE, place(52.5, 13.4), place(52.6, 13.4), { latitude: "52.6", longitude: "13.4" }],
    [POLYGON, place(0.4, 0.6), place(2, 2), { latitude: "2", longitude: "2" }],
    [BOX, place(50, 10, 100), place(50, 12), { latitude: "50", longitude: "12" }],
    [
      BOX,
      place(51, 11, 1_000),
      place(51, 11, 1_001),
      { latitude: "51", longitude: "11", altitude_m: "1001" },
    ],
    [RATE, { invocations: () => 2 }, { invocations: () => 3 }, { used: "3" }],
    [
      PATH,
      { resource_id: "disk", path: "/a/b" },
      { resource_id: "disk", path: "/ab" },
      { resource_id: "disk", path: "/ab" },
    ],
    [PATH, { resource_id: "disk", path: "/a" }, { resource_id: "tape" }, { resource_id: "tape" }],
  ])("has the limit and the sent value of %o beyond the limit, and nothing within", async (...row) => {
    const [constraint, within, beyond, sent] = row;
    expect(await explained(constraint, within)).toBeUndefined();
    const found = await explained(constraint, beyond);
    const { type, ...members } = constraint as { type: string; points?: unknown[] };
    const limit = Object.entries(members).map(([name, value]) => [
      name,
      String(Array.isArray(value) ? value.length : value),
    ]);
    expect(found).toEqual({
      rule: "constraints",
      constraint: type,
      limit: Object.fromEntries(limit),
      sent,
      ...(type !== "max_rate" && { values: "full" }),
    });
  });

  test("has the local time for a time window, whatever the setting", async () => {
    const at = (time: string) => Date.parse(`2026-05-01T${time}:00+02:00`) / 1000;
    expect(await explained(WINDOW, {}, "full", at("17:00"))).toBeUndefined();
    for (const values of ["full", "rounded", "hashed"] as const) {
      expect(await explained(WINDOW, {}, values, at("17:01"))).toEqual({
        rule: "constraints",
        constraint: "time_window",
        limit: { start: "09:00", end: "17:00", tz: "Europe/Berlin" },
        sent: { time: "17:01" },
      });
    }
  });

  test.each<[Constraint, ConstraintContext, object]>([
    [AMOUNT, {}, { limit: { max_amount: "250", currency: "EUR" } }],
    [AMOUNT, { currency: "EUR" }, { sent: { currency: "EUR" } }],
    [PATH, { resource_id: "disk" }, { sent: { resource_id: "disk" } }],
  ])("lists only what was sent if %o cannot be checked with %o", async (constraint, context, expected) => {
    const found = await explained(constraint, context);
    expect(found).toMatchObject({ constraint: constraint.type, ...expected });
    expect(Object.keys(found?.sent ?? {})).toEqual(Object.keys(context));
  });

  test("names an unknown constraint, without its parameters", async () => {
    const unknown = { type: "acme:moon_phase", params: { phase: "full" } };
    expect(await explained(unknown, eur(1))).toEqual({ rule: "constraints", constraint: "acme:moon_phase" });
  });

  test("names no constraint if only several constraints together can never hold", async () => {
    const usd: Constraint = { type: "max_amount", max_amount: 1, currency: "USD" };
    const refusal = await evaluateConstraints([AMOUNT, usd], { certId: "c", now: NOW, context: eur(1) });
    expect(refusal).toMatchObject({ code: "constraint_denied" });
    expect(refusal?.failed).toBeUndefined();
  });
});

describe("values that may be personal", () => {
  test.each<[Constraint, ConstraintContext, Record<string, string>]>([
    [AMOUNT, eur(250.01), { amount: "260", currency: "EUR" }],
    [AMOUNT, eur(300), { amount: "300", currency: "EUR" }],
    [AMOUNT, eur(123_456), { amount: "120000", currency: "EUR" }],
    [AMOUNT, eur(Number.MAX_VALUE), { amount: "1.7e+308", currency: "EUR" }],
    [SPEED, { speed_mps: 10.5 }, { speed_mps: "11" }],
    [CIRCLE, place(52.61234, -13.4567), { latitude: "52.6", longitude: "-13.5" }],
    [CIRCLE, place(52.54, 13.41), { latitude: "52.5", longitude: "13.5" }],
    [BOX, place(51.04, 10.5), { latitude: "51.1", longitude: "10.5" }],
    [BOX, place(49.97, 9.99), { latitude: "50", longitude: "9.9" }],
    [BOX, place(50.5, 10.5, 99.6), { latitude: "50.5", longitude: "10.5", altitude_m: "99" }],
  ])("become rounded numbers beyond the limit of %o", async (constraint, context, sent) => {
    expect(await explained(constraint, context, "rounded")).toMatchObject({ sent, values: "rounded" });
  });

  test("never contradict the denial, wherever the place, the amount or the altitude is", async () => {
    const anywhere = fc.record({
      latitude: fc.double({ min: 49.5, max: 53.5, noNaN: true }),
      longitude: fc.double({ min: 9.5, max: 14.5, noNaN: true }),
      altitude_m: fc.double({ min: 0, max: 2_000, noNaN: true }),
      amount: fc.double({ min: 200, max: 300, noNaN: true }),
      speed_mps: fc.double({ min: 9, max: 12, noNaN: true }),
    });
    await fc.assert(
      fc.asyncProperty(anywhere, async (facts) => {
        const context = { ...facts, currency: "EUR" };
        for (const constraint of [CIRCLE, BOX, POLYGON, AMOUNT, SPEED]) {
          const sent = (await explained(constraint, context, "rounded"))?.sent ?? {};
          const numbers = Object.entries(sent).filter(([, value]) => Number.isFinite(Number(value)));
          if (numbers.length === 0) continue;
          const kept = Object.fromEntries(numbers.map(([fact, value]) => [fact, Number(value)]));
          expect(await explained(constraint, { ...context, ...kept })).toBeDefined();
        }
      }),
    );
  });

  test("become hashes if every rounded place around them would be allowed", async () => {
    const notched: Constraint = {
      type: "geo_polygon",
      points: [
        [0, 0],
        [0, 1],
        [0.449, 1],
        [0.45, 0.55],
        [0.451, 1],
        [1, 1],
        [1, 0],
      ],
    };
    const found = await explained(notched, place(0.45, 0.57), "rounded");
    expect(found?.sent?.latitude).toMatch(/^hmac-sha256:/);
    expect(found?.sent?.longitude).toMatch(/^hmac-sha256:/);
  });

  test.each(["rounded", "hashed"] as const)(
    "become keyed hashes if they are texts and %s",
    async (values) => {
      const sent = { resource_id: "disk", path: "/people/ada" };
      const found = await explained(PATH, sent, values);
      expect(JSON.stringify(found?.sent)).not.toContain("ada");
      expect(found?.sent?.path).toMatch(/^hmac-sha256:[0-9a-f]{32}$/);
      expect(found?.values).toBe(values);
    },
  );

  test("have different hashes for each connection, fact and service key, and equal ones otherwise", async () => {
    const hashes = [box, createSecretBox(Buffer.alloc(32, 2))].flatMap((each) =>
      ["explanation/c/amount", "explanation/d/amount", "explanation/c/speed_mps"].map((context) =>
        each.mac("300", context),
      ),
    );
    expect(new Set(hashes).size).toBe(hashes.length);
    const [first, second] = [
      await explained(AMOUNT, eur(300), "hashed"),
      await explained(AMOUNT, eur(300), "hashed"),
    ];
    expect(first).toEqual(second);
    expect(first?.sent).toEqual({ amount: `hmac-sha256:${hashes[0]}`, currency: "EUR" });
  });

  test("include a text in place of a currency", async () => {
    for (const currency of ["Ada Lovelace", "Alice", "Ada"]) {
      const found = await explained(AMOUNT, { amount: 1, currency }, "hashed");
      expect(found?.sent?.currency).toMatch(/^hmac-sha256:/);
    }
    const own: Constraint = { type: "max_amount", max_amount: 1, currency: "points" };
    expect((await explained(own, { amount: 2, currency: "points" }, "hashed"))?.sent?.currency).toBe(
      "points",
    );
  });
});

describe("hostile values", () => {
  const HOSTILE = '\u0000\u001b[2J\n\u202e\u2028\ud800"\\<script>'.repeat(400);

  test("become short texts without control, invisible or unpaired characters", async () => {
    const sent = { resource_id: HOSTILE, path: HOSTILE };
    const limit: Constraint = { type: "resource_path", resource_id: `x${HOSTILE}`, path_prefix: "/" };
    for (const constraint of [limit, { type: HOSTILE }]) {
      const text = canonicalJson(await explained(constraint, sent));
      expect(Buffer.byteLength(text)).toBeLessThan(MOST_BYTES);
      expect(text).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]|\\u/u);
    }
  });

  test("have no effect beyond their number of characters", async () => {
    const found = async (length: number) =>
      (await explained(PATH, { resource_id: "r".repeat(length) }))?.sent?.resource_id;
    expect(await found(160)).toBe("r".repeat(160));
    expect(await found(161)).toBe(`${"r".repeat(160)}…`);
  });
});

describe("the explanation of another denial", () => {
  const chainWith = async (fields: object) => [
    await certify(testKey(1), testKey(2), { scope: ["data:read", "payments:send"], ...fields }),
  ];
  const of = (reason: Denied["reason"], chain: Denied["chain"], certificate = 0) =>
    explain(
      {
        ...{ reason, chain, context: {}, now: NOW },
        verification: { violation: { code: "expired", detail: "", certificate } },
      },
      keeping(),
    );

  test("has the time at which the certificate ends or begins, also a time that no clock shows", async () => {
    const chain = await chainWith({ expires_at: NOW, issued_at: NOW + 1 });
    expect(of("delegation_expired", chain)).toEqual({
      rule: "not_expired",
      limit: { expires_at: "2026-05-28T20:26:40.000Z" },
    });
    expect(of("not_yet_valid", chain)).toEqual({
      rule: "already_valid",
      limit: { issued_at: "2026-05-28T20:26:41.000Z" },
    });
    const far = await chainWith({ issued_at: Number.MAX_SAFE_INTEGER });
    expect(of("not_yet_valid", far)).toEqual({
      rule: "already_valid",
      limit: { issued_at: String(Number.MAX_SAFE_INTEGER) },
    });
  });

  test("has the scopes that the whole chain grants", async () => {
    expect(of("not_delegated", await chainWith({}))).toEqual({
      rule: "required_scope",
      limit: { scope: "data:read payments:send" },
    });
  });

  test("names only the failed rule for every reason that needs no value", () => {
    const bare = decisionReasons.deny.filter((reason) => Object.keys(of(reason, [])).length === 1);
    expect(bare).toEqual([
      ...["delegation_revoked", "untrusted_root", "principal_not_accepted", "constraint_denied"],
      ...["constraint_unverifiable", "constraint_unknown", "delegation_not_authorized", "ceiling_exceeded"],
    ]);
    for (const reason of decisionReasons.deny) expect(of(reason, []).rule).toBe(REASONS[reason].rule);
  });
});
