import fc from "fast-check";
import type { Constraint } from "../../src/protocol/constraints/constraints.ts";
import type { ConstraintContext } from "../../src/protocol/constraints/evaluate_constraints.ts";
import type { DelegationFields } from "../../src/protocol/documents/certificate.ts";
import type { ChallengeBinding } from "../../src/protocol/documents/challenge.ts";
import { CANONICAL_SCOPES, WILDCARDS } from "../../src/protocol/documents/scope_vocabulary.ts";
import { bytes32, NOW } from "./chains.ts";

/** A context in which every constraint of {@link certificates} holds. */
export const CONTEXT: ConstraintContext = {
  latitude: 47.37,
  longitude: 8.54,
  altitude_m: 400,
  speed_mps: 3,
  amount: 12.5,
  currency: "CHF",
  resource_id: "repo",
  path: "/src/a.ts",
  invocations: () => 0,
};

const positive = fc.double({ min: 0, max: 1e6, noNaN: true });

const constraint: fc.Arbitrary<Constraint> = fc.oneof(
  positive.map((slack) => ({ type: "geo_circle", lat: 47.37, lon: 8.54, radius_m: slack }) as const),
  fc.double({ min: 0.001, max: 40, noNaN: true }).map((half) => ({
    type: "geo_polygon" as const,
    points: [
      [47.37 - half, 8.54 - half],
      [47.37 - half, 8.54 + half],
      [47.37 + half, 8.54 + half],
      [47.37 + half, 8.54 - half],
    ] as [number, number][],
  })),
  fc.double({ min: 0, max: 40, noNaN: true }).map((half) => ({
    type: "geo_bbox" as const,
    min_lat: 47.37 - half,
    min_lon: 8.54 - half,
    max_lat: 47.37 + half,
    max_lon: 8.54 + half,
    min_alt_m: 0,
    max_alt_m: 401 + half,
  })),
  fc
    .constantFrom("UTC", "Europe/Zurich", "America/St_Johns")
    .map((tz) => ({ type: "time_window", start: "00:00", end: "23:59", tz }) as const),
  positive.map((slack) => ({ type: "max_speed_mps", max_mps: 3 + slack }) as const),
  positive.map((slack) => ({ type: "max_amount", max_amount: 12.5 + slack, currency: "CHF" }) as const),
  fc.tuple(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 1, max: 1e9 })).map(([count, window_s]) => ({
    type: "max_rate" as const,
    count,
    window_s,
  })),
  fc
    .constantFrom("/", "/src", "/src/", "/src/a.ts")
    .map((path_prefix) => ({ type: "resource_path", resource_id: "repo", path_prefix }) as const),
);

const text = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
const scope = fc.oneof(
  fc.constantFrom(...CANONICAL_SCOPES, ...WILDCARDS.keys()),
  text.map((name) => `custom:${name}`),
);

/**
 * Generates fields of a certificate that may be issued and may delegate. Its constraints hold at {@link NOW}
 * in {@link CONTEXT}.
 */
export const certificates: fc.Arbitrary<Partial<DelegationFields>> = fc.record({
  cert_id: text,
  scope: fc.array(scope, { maxLength: 6 }).map((scopes) => ["identity:delegate", "files:read", ...scopes]),
  constraints: fc.array(constraint, { maxLength: 4 }),
  issued_at: fc.integer({ min: 0, max: NOW }),
  expires_at: fc.integer({ min: NOW, max: 2 ** 53 - 1 }),
});

const bytes = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((content) => Buffer.from(content).toString("base64"));

/** Generates a binding to a challenge that is fresh at {@link NOW}, at the first turn of a stream. */
export const bindings: fc.Arbitrary<Partial<ChallengeBinding>> = fc
  .record(
    {
      challenge: bytes,
      challenge_at: fc.integer({ min: NOW - 300, max: NOW }),
      session_context: fc.constant(bytes32(1)),
      stream: fc.constant({ stream_id: bytes32(2), stream_seq: 1 }),
    },
    { requiredKeys: ["challenge", "challenge_at"] },
  )
  .map(({ stream, ...binding }) => ({ ...binding, ...stream }));
