import { describe, expect, test } from "vitest";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import type { GeoBox } from "../../../src/protocol/constraints/geometry.ts";
import {
  checkIssuable,
  type DelegationFields,
  delegationSignBytes,
} from "../../../src/protocol/documents/certificate.ts";
import { decodeProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";
import { NO_EXPIRY_SENTINEL } from "../../../src/protocol/encoding/constants.ts";
import { signHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { issueDelegation, presentProof } from "../../../src/protocol/statements/issuing.ts";
import { verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";
import { AGENT, binding, certify, encode, fields, NOW, ROOT } from "../../support/chains.ts";

const issuable = (changes: Partial<DelegationFields>) => checkIssuable(fields(ROOT, AGENT, changes))?.code;
const POSITION = { latitude: 5, longitude: 5, altitude_m: 100 };
const path = (path_prefix: string, resource_id = "r") =>
  ({ type: "resource_path", resource_id, path_prefix }) as const;

describe("issuing a certificate", () => {
  test("signs a permitted certificate, which then passes verification", async () => {
    const certificate = await issueDelegation(fields(ROOT, AGENT), ROOT.privateKey);
    if (certificate instanceof Error) throw certificate;
    const bundle = decodeProofBundle(encode(await presentProof(AGENT.privateKey, [certificate], binding())));
    expect((await verifyBundle(bundle, { now: NOW, required_scope: "meeting:attend" })).valid).toBe(true);
  });

  test.each([
    ["no altitude", { min_alt_m: 0, max_alt_m: 0 }],
    ["altitudes", { min_alt_m: 0, max_alt_m: 120 }],
  ])("signs a box with %s, which passes verification after decoding", async (_, altitudes) => {
    const constraints = [box(altitudes)];
    const certificate = await issueDelegation(fields(ROOT, AGENT, { constraints }), ROOT.privateKey);
    if (certificate instanceof Error) throw certificate;
    const bundle = decodeProofBundle(encode(await presentProof(AGENT.privateKey, [certificate], binding())));
    expect((await verifyBundle(bundle, { now: NOW, context: POSITION })).valid).toBe(true);
  });

  test("returns the reason instead of a certificate that must not be issued", async () => {
    const refused = await issueDelegation(fields(ROOT, AGENT, { scope: ["x-a:b"] }), ROOT.privateKey);
    expect(refused).toMatchObject({ code: "invalid_scope" });
  });

  test.each([
    ["no expiry", { expires_at: NO_EXPIRY_SENTINEL }],
    ["one second of validity", { issued_at: NOW, expires_at: NOW + 1 }],
    ["the first second of 1970", { issued_at: 0 }],
    ["128 scopes", { scope: Array.from({ length: 128 }, (_, index) => `custom:${index}`) }],
    ["a scope of 256 bytes", { scope: [`custom:${"a".repeat(249)}`] }],
    ["32 constraints", { constraints: Array.from({ length: 32 }, () => path("/a")) }],
    ["an extension with params", { constraints: [{ type: "acme:badge", params: { level: 3 } }] }],
    ["nested prefixes", { constraints: [path("/a"), path("/a/b"), path("/a/")] }],
    ["prefix and whole resource", { constraints: [path("/a"), { type: "resource_path", resource_id: "r" }] }],
    ["two amounts in the same currency", { constraints: [amount(5, "EUR"), amount(3, "EUR")] }],
    ["an amount of 0", { constraints: [amount(0, "EUR")] }],
    ["a polygon of three points spanning 180 degrees", { constraints: [polygon([0, -90], [1, 90], [1, 0])] }],
    [
      "a window that crosses midnight",
      { constraints: [{ type: "time_window", start: "22:00", end: "06:00", tz: "Europe/Berlin" }] },
    ],
  ] as [string, Partial<DelegationFields>][])("accepts %s", (_, changes) => {
    expect(issuable(changes)).toBeUndefined();
  });

  test.each([
    ["a different version", { version: 2 }, "invalid_version"],
    ["a box with one altitude", { constraints: [box({ max_alt_m: 120 })] }, "missing_field"],
    ["an issuer id that is not its key's", { issuer_id: AGENT.id }, "identifier_mismatch"],
    ["a subject id that is not its key's", { subject_id: ROOT.id }, "identifier_mismatch"],
    ["a validity of 0 seconds", { issued_at: NOW, expires_at: NOW }, "invalid_validity"],
    ["an expiry before the issue time", { issued_at: NOW, expires_at: NOW - 1 }, "invalid_validity"],
    ["a time before 1970", { issued_at: -1 }, "invalid_validity"],
    ["a time that is not an integer", { issued_at: NOW + 0.5 }, "invalid_integer"],
    ["no scope", { scope: [] }, "invalid_scope"],
    ["an unknown scope", { scope: ["meeting:attend", "pretend:unknown"] }, "invalid_scope"],
    ["129 scopes", { scope: Array.from({ length: 129 }, (_, index) => `custom:${index}`) }, "limit_exceeded"],
    ["a scope of 257 bytes", { scope: [`custom:${"a".repeat(250)}`] }, "limit_exceeded"],
    ["33 constraints", { constraints: Array.from({ length: 33 }, () => path("/a")) }, "limit_exceeded"],
    ["an empty id", { cert_id: "" }, "missing_field"],
    ["an id with a lone surrogate", { cert_id: "\ud800" }, "invalid_utf8"],
    [
      "a constraint with a member of a different type",
      { constraints: [{ type: "max_rate", count: 1, window_s: 1, lat: 0 }] },
      "unknown_field",
    ],
    ["a constraint without its fields", { constraints: [{ type: "geo_circle" }] }, "missing_field"],
    ["a fraction in params", { constraints: [{ type: "acme:badge", params: 0.5 }] }, "invalid_integer"],
    ["a rate of 0", { constraints: [{ type: "max_rate", count: 0, window_s: 60 }] }, "invalid_constraint"],
    [
      "a rate over 0 seconds",
      { constraints: [{ type: "max_rate", count: 1, window_s: 0 }] },
      "invalid_constraint",
    ],
    ["a negative amount", { constraints: [amount(-1, "EUR")] }, "invalid_constraint"],
    ["an amount without a currency", { constraints: [amount(1, "")] }, "invalid_constraint"],
    ["a negative speed", { constraints: [{ type: "max_speed_mps", max_mps: -1 }] }, "invalid_constraint"],
    [
      "a negative radius",
      { constraints: [{ type: "geo_circle", lat: 0, lon: 0, radius_m: -1 }] },
      "invalid_constraint",
    ],
    [
      "a latitude over 90",
      { constraints: [{ type: "geo_circle", lat: 90.1, lon: 0, radius_m: 1 }] },
      "invalid_constraint",
    ],
    ["a polygon of two points", { constraints: [polygon([0, 0], [1, 1])] }, "invalid_constraint"],
    [
      "a polygon spanning over 180 degrees",
      { constraints: [polygon([0, -90], [1, 90.5], [1, 0])] },
      "invalid_constraint",
    ],
    [
      "a box whose minimum latitude is above its maximum",
      { constraints: [{ type: "geo_bbox", min_lat: 1, min_lon: 0, max_lat: 0, max_lon: 1 }] },
      "invalid_constraint",
    ],
    [
      "an invalid time",
      { constraints: [{ type: "time_window", start: "24:00", end: "06:00", tz: "UTC" }] },
      "invalid_constraint",
    ],
    [
      "an unknown time zone",
      { constraints: [{ type: "time_window", start: "09:00", end: "10:00", tz: "Mars/Olympus" }] },
      "invalid_constraint",
    ],
    [
      "an offset instead of a time zone",
      { constraints: [{ type: "time_window", start: "09:00", end: "10:00", tz: "+01:00" }] },
      "invalid_constraint",
    ],
    ["an empty prefix", { constraints: [path("")] }, "invalid_constraint"],
    ["a prefix with ..", { constraints: [path("/a/../b")] }, "invalid_constraint"],
    ["an empty resource id", { constraints: [path("/a", "")] }, "invalid_constraint"],
    ["prefixes that are not nested", { constraints: [path("/a"), path("/ab")] }, "unsatisfiable_constraints"],
    [
      "paths of two resources",
      { constraints: [path("/a", "r"), path("/a", "s")] },
      "unsatisfiable_constraints",
    ],
    [
      "amounts in two currencies",
      { constraints: [amount(1, "EUR"), amount(1, "USD")] },
      "unsatisfiable_constraints",
    ],
    [
      "windows of one time zone that do not meet",
      { constraints: [hours("09:00", "10:00"), hours("10:01", "12:00")] },
      "unsatisfiable_constraints",
    ],
    [
      "three windows that meet only in pairs",
      { constraints: [hours("00:00", "10:00"), hours("08:00", "18:00"), hours("16:00", "02:00")] },
      "unsatisfiable_constraints",
    ],
    [
      "boxes side by side",
      { constraints: [box({ max_lon: 4 }), box({ min_lon: 4.01 })] },
      "unsatisfiable_constraints",
    ],
    [
      "boxes above each other on the map",
      { constraints: [box({ max_lat: 4 }), box({ min_lat: 4.01 })] },
      "unsatisfiable_constraints",
    ],
    [
      "boxes above each other in the air",
      {
        constraints: [box({ min_alt_m: 1, max_alt_m: 9 }), box({}), box({ min_alt_m: 9.5, max_alt_m: 20 })],
      },
      "unsatisfiable_constraints",
    ],
  ] as [string, Partial<DelegationFields>, string][])("refuses %s", (_, changes, code) => {
    expect(issuable(changes)).toBe(code);
  });

  test.each([
    ["windows with one minute in common", [hours("09:00", "10:00"), hours("10:00", "12:00")]],
    ["windows that meet after midnight", [hours("22:00", "06:00"), hours("05:00", "08:00")]],
    ["windows of two time zones", [hours("09:00", "10:00"), hours("11:00", "12:00", "Asia/Tokyo")]],
    ["boxes with an edge in common", [box({ max_lon: 4, max_lat: 4 }), box({ min_lon: 4, min_lat: 4 })]],
    [
      "boxes that meet beyond the 180° meridian",
      [box({ min_lon: 175, max_lon: -175 }), box({ min_lon: -180, max_lon: -178 })],
    ],
    [
      "boxes that share an altitude",
      [box({ min_alt_m: 1, max_alt_m: 9 }), box({}), box({ min_alt_m: 9, max_alt_m: 20 })],
    ],
  ] as [string, Constraint[]][])("accepts %s", (_, constraints) => {
    expect(issuable({ constraints })).toBeUndefined();
  });

  test("refuses params with too many levels for a bundle, and accepts one level less", async () => {
    const nested = (depth: number) => [
      { type: "acme:deep", params: JSON.parse("[".repeat(depth) + "]".repeat(depth)) },
    ];
    const deepest =
      Array.from({ length: 20 }, (_, depth) => depth).findLast(
        (depth) => issuable({ constraints: nested(depth) }) === undefined,
      ) ?? 0;
    expect(issuable({ constraints: nested(deepest + 1) })).toBe("too_deep");
    const bundle = async (depth: number) =>
      encode(
        await presentProof(
          AGENT.privateKey,
          [await certify(ROOT, AGENT, { constraints: nested(depth) })],
          binding(),
        ),
      );
    expect(decodeProofBundle(await bundle(deepest)).delegations).toHaveLength(1);
    const tooDeep = await bundle(deepest + 1);
    expect(() => decodeProofBundle(tooDeep)).toThrow(expect.objectContaining({ code: "too_deep" }));
  });

  test("refuses params that are nested too deep for the call stack", () => {
    let params: unknown = 0;
    for (let depth = 0; depth < 100_000; depth += 1) params = [params];
    expect(issuable({ constraints: [{ type: "acme:deep", params: params as never }] })).toBe("too_deep");
  });

  test("refuses a certificate that is too large for a bundle", () => {
    expect(issuable({ constraints: [{ type: "acme:big", params: "a".repeat(125_000) }] })).toBe("too_large");
  });
});

describe("the signed bytes of a certificate", () => {
  test("include all fields except the signature", async () => {
    const certificate = await certify(ROOT, AGENT);
    const { signature: _, ...rest } = certificate;
    expect(JSON.parse(Buffer.from(delegationSignBytes(certificate)).toString())).toEqual(rest);
  });

  test("include an empty list of constraints", () => {
    expect(Buffer.from(delegationSignBytes(fields(ROOT, AGENT))).toString()).toContain('"constraints":[]');
  });

  test("differ if any field differs", () => {
    const changes: Partial<DelegationFields>[] = [
      { cert_id: "other" },
      { version: 2 },
      { issuer_id: "x" },
      { issuer_pub_key: AGENT.publicKey },
      { subject_id: "x" },
      { subject_pub_key: ROOT.publicKey },
      { scope: [] },
      { constraints: [{ type: "x" }] },
      { issued_at: 1 },
      { expires_at: 1 },
    ];
    const texts = [{}, ...changes].map((change) =>
      Buffer.from(delegationSignBytes(fields(ROOT, AGENT, change))).toString(),
    );
    expect(new Set(texts).size).toBe(changes.length + 1);
  });

  test.each([
    [{}, ""],
    [{ min_alt_m: 0, max_alt_m: 0 }, ""],
    [{ min_alt_m: -0, max_alt_m: 0 }, ""],
    [{ max_alt_m: 0 }, ""],
    [{ min_alt_m: 0, max_alt_m: 120 }, '"max_alt_m":120,"max_lat":10,"max_lon":10,"min_alt_m":0,'],
    [{ max_alt_m: 120 }, '"max_alt_m":120,"max_lat":10,"max_lon":10,"min_alt_m":0,'],
    [{ min_alt_m: -3.5, max_alt_m: 0 }, '"max_alt_m":0,"max_lat":10,"max_lon":10,"min_alt_m":-3.5,'],
    [{ min_alt_m: -3.5 }, '"max_alt_m":0,"max_lat":10,"max_lon":10,"min_alt_m":-3.5,'],
  ])("include both altitudes of a box if one of %j is not 0", (altitudes, text) => {
    const bytes = delegationSignBytes(fields(ROOT, AGENT, { constraints: [box(altitudes)] }));
    const corners = `${text || '"max_lat":10,"max_lon":10,'}"min_lat":0,"min_lon":0,"type":"geo_bbox"`;
    expect(Buffer.from(bytes).toString()).toContain(`"constraints":[{${corners}}]`);
  });

  test("do not match if the altitudes of a box are written in a different form", async () => {
    for (const altitudes of [{ min_alt_m: 0, max_alt_m: 0 }, { max_alt_m: 120 }]) {
      const certificate = fields(ROOT, AGENT, { constraints: [box(altitudes)] });
      const signature = await signHybrid(ROOT.privateKey, canonicalBytes(certificate));
      const bundle = await presentProof(AGENT.privateKey, [{ ...certificate, signature }], binding());
      const { error_reason } = await verifyBundle(bundle, { now: NOW, context: POSITION });
      expect(error_reason).toMatch(/^bad_signature: /);
    }
  });
});

function amount(max_amount: number, currency: string) {
  return { type: "max_amount", max_amount, currency } as const;
}

function hours(start: string, end: string, tz = "UTC") {
  return { type: "time_window", start, end, tz } as const;
}

function box(bounds: Partial<GeoBox>): GeoBox {
  return { type: "geo_bbox", min_lat: 0, min_lon: 0, max_lat: 10, max_lon: 10, ...bounds };
}

function polygon(...points: [number, number][]) {
  return { type: "geo_polygon", points } as const;
}
