import { hash } from "node:crypto";
import { z } from "zod";
import { bundleHash, proofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { asObject } from "../../src/protocol/encoding/fields.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import { verificationReceiptSignBytes } from "../../src/protocol/statements/verification_receipt.ts";
import type { VectorResult } from "./run.ts";
import { Expectations } from "./vector.ts";

const crossVectorSchema = z.strictObject({
  kind: z.string(),
  name: z.string(),
  description: z.string().optional(),
  input: z.unknown(),
  expected_hash_hex: z.string().optional(),
  expected_bytes_b64: z.string().optional(),
});

const contextSchema = z.strictObject({
  current_alt_m: z.number(),
  current_lat: z.number(),
  current_lon: z.number(),
  current_speed_mps: z.number(),
  has_amount: z.boolean(),
  has_location: z.boolean(),
  has_speed: z.boolean(),
  requested_amount: z.number(),
  requested_currency: z.string(),
});

const base64OfHex = z.hex().transform((hex) => Buffer.from(hex, "hex").toString("base64"));

const verdictSchema = z.strictObject({
  agent_id: z.string(),
  allow: z.boolean(),
  context_hash_hex: base64OfHex,
  issued_at: z.int(),
  scope: z.string(),
  valid_until: z.int(),
  verdict_id: z.string(),
  version: z.int(),
});

const receiptSchema = z.strictObject({
  agent_id: z.string().exactOptional(),
  bundle_hash_hex: base64OfHex,
  decision: z.string(),
  error_reason: z.string().exactOptional(),
  granted_scope: z.array(z.string()).exactOptional(),
  human_id: z.string().exactOptional(),
  prev_hash_hex: base64OfHex,
  verified_at: z.int(),
  verifier_id: z.string(),
  verifier_pub: z.strictObject({ ed25519: z.string(), ml_dsa_65: z.string() }),
  version: z.int(),
});

/** Each kind of vector, with the bytes that every implementation must compute from the vector's input. */
const KINDS: Record<string, (input: JsonObject) => Uint8Array> = {
  bundle_hash: (input) => bundleHash(proofBundle(input.bundle ?? null)),
  verifier_context_hash: (input) =>
    hash("sha256", canonicalBytes(contextSchema.parse(plainJson(input))), "buffer"),
  policy_verdict_sign_bytes: (input) => {
    const { context_hash_hex: context_hash, ...verdict } = verdictSchema.parse(plainJson(input));
    return canonicalBytes({ ...verdict, context_hash });
  },
  verification_receipt_sign_bytes: (input) => {
    const { bundle_hash_hex, prev_hash_hex, ...receipt } = receiptSchema.parse(plainJson(input));
    return verificationReceiptSignBytes({
      ...receipt,
      bundle_hash: bundle_hash_hex,
      prev_hash: prev_hash_hex,
    });
  },
};

export function checkCrossVector(item: JsonObject): VectorResult {
  const { kind, name, expected_hash_hex, expected_bytes_b64 } = crossVectorSchema.parse(plainJson(item));
  const expect = new Expectations();
  const make = KINDS[kind];
  if (make === undefined) expect.equal("kind", `one of ${Object.keys(KINDS).join(", ")}`, kind);
  if ((expected_hash_hex === undefined) === (expected_bytes_b64 === undefined)) {
    throw new Error("the vector expects a hash or bytes, one of them");
  }
  const hex = expected_hash_hex ?? Buffer.from(expected_bytes_b64 ?? "", "base64").toString("hex");
  if (make !== undefined) expect.bytes(kind, hex, () => make(asObject(item.input ?? null)));
  return { kind, name, mismatches: expect.mismatches };
}
