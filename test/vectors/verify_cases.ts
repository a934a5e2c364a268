import type { DelegationFields } from "../../src/protocol/documents/certificate.ts";
import type { ChallengeBinding } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { NO_EXPIRY_SENTINEL } from "../../src/protocol/encoding/constants.ts";

/** The Unix time at which implementations must verify the vectors. */
export const NOW = 1_800_000_000;

/** The changes that turn a simple proof into one verify vector, and the expected result. */
export type VerifyCase = {
  name: string;
  description: string;
  /**
   * For each certificate of the chain, leaf first, the fields that differ from the defaults. Default: one
   * certificate without changes.
   */
  chain?: Partial<DelegationFields>[];
  binding?: Partial<ChallengeBinding>;
  /** Changes the bundle after it is signed. */
  tamper?: (bundle: ProofBundle) => ProofBundle;
  options?: Record<string, unknown>;
  context?: Record<string, number | string>;
  status: string;
  /** The code at the start of the error reason. Absent for a valid proof. */
  code?: string;
  /** The whole error reason, if the published reason has no code. */
  sentence?: string;
  granted?: string[];
};

const bytes = (byte: number) => Buffer.alloc(32, byte).toString("base64");
const delegating = ["meeting:attend", "identity:delegate"];
const constrained = (...constraints: DelegationFields["constraints"]) => [{ constraints }];
const path = (path_prefix: string) => ({ type: "resource_path", resource_id: "repo", path_prefix });

/** Cases that the published vectors do not cover. */
export const VERIFY_CASES: VerifyCase[] = [
  {
    name: "own_worked_example",
    description: "The example of docs/wire_format.md.",
    options: { required_scope: "meeting:attend" },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_no_expiry",
    description: "A certificate until revoked.",
    chain: [{ expires_at: NO_EXPIRY_SENTINEL }],
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_awkward_text",
    description:
      "Identifiers and scopes with line separators, control characters, quotes and characters of all planes.",
    chain: [
      {
        cert_id: '\u2028\u2029\u0001"\\/<&>é\ue000😀\u007f',
        scope: ["custom:\u2028😀", "custom:\ue000", "custom:a"],
      },
    ],
    status: "authorized_agent",
    granted: ["custom:a", "custom:\u2028😀", "custom:\ue000"],
  },
  {
    name: "own_extension_params_unknown",
    description:
      "An extension constraint whose params have keys that sort differently by UTF-8 bytes and by UTF-16 units.",
    chain: constrained({
      type: "acme:badge",
      params: { "\ue000": [1, -9007199254740991, null], "😀": { b: true, a: "x" } },
    }),
    status: "constraint_unknown",
    code: "constraint_unknown",
  },
  {
    name: "own_floats_accept",
    description: "Small and long fractions in constraints.",
    chain: constrained(
      { type: "geo_circle", lat: 1e-7, lon: -0.30000000000000004, radius_m: 0.5 },
      { type: "max_amount", max_amount: 0.1, currency: "EUR" },
    ),
    context: {
      current_lat: 1e-7,
      current_lon: -0.30000000000000004,
      requested_amount: 0.1,
      requested_currency: "EUR",
    },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_geo_bbox_wraps",
    description: "A box over the 180° meridian, with altitude.",
    chain: constrained({
      type: "geo_bbox",
      min_lat: -20,
      min_lon: 177,
      max_lat: -15,
      max_lon: -179,
      min_alt_m: -5,
      max_alt_m: 100,
    }),
    context: { current_lat: -18, current_lon: -179.5, current_alt_m: 100 },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_geo_bbox_altitude_unverifiable",
    description: "A box with altitude, and none supplied.",
    chain: constrained({
      type: "geo_bbox",
      min_lat: -20,
      min_lon: 0,
      max_lat: 20,
      max_lon: 10,
      min_alt_m: 0,
      max_alt_m: 100,
    }),
    context: { current_lat: 0, current_lon: 5 },
    status: "constraint_unverifiable",
    code: "constraint_unverifiable",
  },
  {
    name: "own_geo_bbox_no_altitude",
    description: "A box whose two altitudes are 0: they say nothing and are no part of the signed bytes.",
    chain: constrained({
      type: "geo_bbox",
      min_lat: -20,
      min_lon: 0,
      max_lat: 20,
      max_lon: 10,
      min_alt_m: 0,
      max_alt_m: 0,
    }),
    context: { current_lat: 0, current_lon: 5 },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_geo_polygon_span_denied",
    description: "A polygon over more than 180 degrees of longitude fails closed.",
    chain: constrained({
      type: "geo_polygon",
      points: [
        [-10, -100],
        [-10, 100],
        [10, 100],
        [10, -100],
      ],
    }),
    context: { current_lat: 0, current_lon: 0 },
    status: "constraint_denied",
    code: "constraint_denied",
  },
  {
    name: "own_time_window_wraps",
    description: "From 22:00 to 08:00 in UTC, at 08:00.",
    chain: constrained({ type: "time_window", start: "22:00", end: "08:00", tz: "UTC" }),
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_max_rate_denied",
    description: "The third of at most two in a minute.",
    chain: constrained({ type: "max_rate", count: 2, window_s: 60 }),
    context: { invocations_in_window: 2 },
    status: "constraint_denied",
    code: "constraint_denied",
  },
  {
    name: "own_max_amount_currency_denied",
    description: "A small amount in another currency.",
    chain: constrained({ type: "max_amount", max_amount: 100, currency: "EUR" }),
    context: { requested_amount: 1, requested_currency: "USD" },
    status: "constraint_denied",
    code: "constraint_denied",
  },
  {
    name: "own_resource_path_contradiction",
    description: "Two prefixes beside each other can never be met.",
    chain: constrained(path("/a"), path("/b")),
    context: { requested_resource_id: "repo", requested_path: "/a" },
    status: "constraint_denied",
    code: "constraint_denied",
  },
  {
    name: "own_delegation_not_authorized",
    description: "The issuer of the leaf holds no identity:delegate.",
    chain: [{}, { scope: ["meeting:*"] }],
    status: "delegation_not_authorized",
    code: "delegation_not_authorized",
  },
  {
    name: "own_invalid_scope",
    description: "A reserved prefix in the root's scope.",
    chain: [{}, { scope: [...delegating, "x-acme:read"] }],
    status: "invalid_scope",
    code: "invalid_scope",
  },
  {
    name: "own_version_mismatch",
    description: "A certificate of version 2.",
    chain: [{ version: 2 }],
    status: "invalid",
    code: "version_mismatch",
  },
  {
    name: "own_broken_chain",
    description: "The leaf names another issuer than the subject above it.",
    chain: [{ issuer_id: "someone" }, { scope: delegating }],
    status: "invalid",
    code: "broken_chain",
  },
  {
    name: "own_revoked_root",
    description: "Revoked is the last certificate of the chain, as no other is named.",
    chain: [{}, { scope: delegating }],
    status: "revoked",
    code: "revoked",
    sentence: "delegation certificate has been revoked",
  },
  {
    name: "own_revoked_leaf",
    description: "Revoked is the certificate that is named.",
    chain: [{}, { scope: delegating, expires_at: NOW - 1 }],
    options: { revoked: ["00000000-0000-4000-8000-000000000000"] },
    status: "revoked",
    code: "revoked",
    sentence: "delegation certificate has been revoked",
  },
  {
    name: "own_id_mismatch",
    description: "The agent's own key under another id.",
    tamper: (bundle) => ({ ...bundle, agent_id: "someone" }),
    status: "invalid",
    code: "id_mismatch",
  },
  {
    name: "own_ml_dsa_65_only_corrupted",
    description: "A good Ed25519 half beside a broken ML-DSA-65 half.",
    tamper: (bundle) => ({
      ...bundle,
      delegations: bundle.delegations.map((certificate) => ({
        ...certificate,
        signature: { ...certificate.signature, ml_dsa_65: `A${certificate.signature.ml_dsa_65.slice(1)}` },
      })),
    }),
    status: "invalid",
    code: "bad_signature",
  },
  {
    name: "own_challenge_from_the_future",
    description: "Signed one second after now.",
    binding: { challenge_at: NOW + 1 },
    status: "invalid",
    code: "stale_challenge",
  },
  {
    name: "own_challenge_in_its_last_second",
    description: "Signed 300 seconds ago.",
    binding: { challenge_at: NOW - 300 },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_missing_session_context",
    description: "The verifier requires a session that the proof is not bound to.",
    options: { session_context: bytes(9) },
    status: "invalid",
    code: "missing_session_context",
  },
  {
    name: "own_session_and_stream",
    description: "Bound to a session and the third turn of a stream: 112 signed bytes.",
    binding: { session_context: bytes(9), stream_id: bytes(8), stream_seq: 3 },
    options: { session_context: bytes(9), stream: { stream_id: bytes(8), last_seen_seq: 2 } },
    status: "authorized_agent",
    granted: ["meeting:attend"],
  },
  {
    name: "own_stream_skip",
    description: "A turn that leaves one out.",
    binding: { stream_id: bytes(8), stream_seq: 4 },
    options: { stream: { stream_id: bytes(8), last_seen_seq: 2 } },
    status: "invalid",
    code: "stream_seq_skip",
  },
];
