import { ml_dsa65 } from "@noble/post-quantum/ml-dsa.js";
import type { SignatureCase } from "./signature_case.ts";

const COMMITMENT_BYTES = 48;
const RESPONSE_BYTES = 3200;
const HINT_AT = COMMITMENT_BYTES + RESPONSE_BYTES;
const HINTS = 55;
const POLYNOMIALS = 6;
const COEFFICIENT_BITS = 20;
const RESPONSE_RANGE = 2 ** 19;
const RESPONSE_BOUND = RESPONSE_RANGE - 196;

const { publicKey, secretKey } = ml_dsa65.keygen(Buffer.alloc(32, 42));
const message = Buffer.from("ML-DSA-65 edge cases");
const good = ml_dsa65.sign(message, secretKey, { extraEntropy: false });

/**
 * Returns edge cases of ML-DSA-65. Their classes come from FIPS 204 algorithms 3, 8 and 21: hint encoding,
 * norm bound of z, lengths, context string. A signature is c̃ (48 bytes) ‖ z (5 × 256 coefficients of 20
 * bits) ‖ hint (55 positions, 6 counts).
 */
export function mlDsa65Cases(): SignatureCase[] {
  return [...accepted(), ...hints(), ...norms(), ...changes(), ...domains(), ...lengths()];
}

function accepted(): SignatureCase[] {
  return [
    entry("as signed", "valid", good, true),
    entry("hedged", "valid", ml_dsa65.sign(message, secretKey, { extraEntropy: Buffer.alloc(32, 9) }), true),
  ];
}

function hints(): SignatureCase[] {
  const counts = Array.from({ length: POLYNOMIALS }, (_, index) => good[HINT_AT + HINTS + index] ?? 0);
  const used = counts.at(-1) ?? 0;
  const first = counts.findIndex((count, index) => count - (counts[index - 1] ?? 0) >= 2);
  const start = HINT_AT + (counts[first - 1] ?? 0);
  const swapped = edit(start, [good[start + 1] ?? 0, good[start] ?? 0]);
  const repeated = edit(start + 1, [good[start] ?? 0]);
  return [
    entry("two positions of one polynomial swapped", "hint", swapped),
    entry("a position twice", "hint", repeated),
    entry("a position after the last that counts", "hint", edit(HINT_AT + used, [1])),
    entry("the last unused position set", "hint", edit(HINT_AT + HINTS - 1, [255])),
    entry("a count over 55", "hint", edit(HINT_AT + HINTS + POLYNOMIALS - 1, [HINTS + 1])),
    entry("a count that decreases", "hint", edit(HINT_AT + HINTS + 1, [(counts[0] ?? 0) - 1])),
    entry("a count of 255", "hint", edit(HINT_AT + HINTS, [255])),
    entry(
      "no hints at all",
      "hint",
      edit(
        HINT_AT,
        Array.from({ length: HINTS + POLYNOMIALS }, () => 0),
      ),
    ),
  ];
}

function norms(): SignatureCase[] {
  return [RESPONSE_BOUND - 1, RESPONSE_BOUND, RESPONSE_RANGE, -(RESPONSE_RANGE - 1), -RESPONSE_BOUND].map(
    (value) => entry(`first coefficient of z set to ${value}`, "norm of z", withCoefficient(value)),
  );
}

function changes(): SignatureCase[] {
  const other = ml_dsa65.keygen(Buffer.alloc(32, 43)).publicKey;
  return [
    entry("first bit of c̃ changed", "changed", edit(0, [(good[0] ?? 0) ^ 1])),
    entry("last bit of z changed", "changed", edit(HINT_AT - 1, [(good[HINT_AT - 1] ?? 0) ^ 0x80])),
    { ...entry("another message", "changed", good), message: hex(Buffer.from("another message")) },
    { ...entry("another key", "changed", good), public_key: hex(other) },
    { ...entry("first bit of rho changed", "changed", good), public_key: hex(flip(publicKey, 0)) },
    {
      ...entry("last bit of t1 changed", "changed", good),
      public_key: hex(flip(publicKey, publicKey.length - 1)),
    },
    { ...entry("a key of zeros", "changed", good), public_key: hex(new Uint8Array(publicKey.length)) },
  ];
}

function domains(): SignatureCase[] {
  const context = Buffer.from("context");
  return [
    entry(
      "signed under a context string",
      "domain",
      ml_dsa65.sign(message, secretKey, { context, extraEntropy: false }),
    ),
    entry(
      "signed without the domain prefix",
      "domain",
      ml_dsa65.internal.sign(message, secretKey, { extraEntropy: false }),
    ),
  ];
}

function lengths(): SignatureCase[] {
  const { signature, public_key, ...rest } = entry("", "length", good);
  return [
    { ...rest, public_key, name: "signature without its last byte", signature: signature.slice(0, -2) },
    { ...rest, public_key, name: "signature with a byte more", signature: `${signature}00` },
    { ...rest, public_key, name: "empty signature", signature: "" },
    { ...rest, signature, name: "key without its last byte", public_key: public_key.slice(0, -2) },
    { ...rest, signature, name: "key with a byte more", public_key: `${public_key}00` },
  ];
}

/** z contains γ1 − coefficient, so that the coefficient is in (−γ1, γ1]. */
function withCoefficient(value: number): Uint8Array {
  const encoded = RESPONSE_RANGE - value;
  const low = good[COMMITMENT_BYTES + 2] ?? 0;
  return edit(COMMITMENT_BYTES, [
    encoded & 0xff,
    (encoded >> 8) & 0xff,
    (low & 0xf0) | ((encoded >> 16) & (2 ** (COEFFICIENT_BITS - 16) - 1)),
  ]);
}

function edit(at: number, bytes: readonly number[]): Uint8Array {
  const copy = Uint8Array.from(good);
  copy.set(bytes, at);
  return copy;
}

function flip(bytes: Uint8Array, at: number): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

function entry(name: string, group: string, signature: Uint8Array, valid = false): SignatureCase {
  return {
    name,
    class: group,
    valid,
    public_key: hex(publicKey),
    message: hex(message),
    signature: hex(signature),
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
