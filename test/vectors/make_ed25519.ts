import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import type { SignatureCase } from "./signature_case.ts";

type Point = InstanceType<typeof ed25519.Point>;

const { Point } = ed25519;
const { BASE, Fn } = Point;
const ORDER = Fn.ORDER;
const FIELD = Point.Fp.ORDER;
const TORSION = Point.fromHex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", true);
const SECRET = 0x1234567890abcdefn;
const NONCE = 0xfedcba0987654321n;

/**
 * Returns edge cases of Ed25519 for which implementations are known to differ. Their classes are those of the
 * literature ("Taming the many EdDSAs", RFC 8032). Each case contains the result of strict verification.
 * Strict means canonical encodings, neither A nor R of small order, s below the group order, and the equation
 * without cofactor.
 */
export function ed25519Cases(): SignatureCase[] {
  return [
    ...publishedCases(),
    ...smallOrderKeys(),
    ...mixedOrder(),
    ...encodings(),
    ...scalars(),
    ...lengths(),
  ];
}

function publishedCases(): SignatureCase[] {
  return [
    {
      name: "RFC 8032 test 1, the empty message",
      class: "published",
      valid: true,
      public_key: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      message: "",
      signature:
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    },
    {
      name: "RFC 8032 test 2, one byte",
      class: "published",
      valid: true,
      public_key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
      message: "72",
      signature:
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    },
  ];
}

/** With a key of small order, anyone can sign: if h·A = 0, then s = r satisfies the equation with R = r·B. */
function smallOrderKeys(): SignatureCase[] {
  const canonical = Array.from({ length: 8 }, (_, index) => multiple(index).toBytes());
  const others = [
    fieldElement(FIELD),
    fieldElement(FIELD + 1n),
    withSign(fieldElement(1n)),
    withSign(fieldElement(FIELD - 1n)),
  ];
  const commitment = BASE.multiply(NONCE).toBytes();
  return [...canonical, ...others].map((key) => {
    const message = messageWhere((candidate) => challenge(commitment, key, candidate) % 8n === 0n);
    const name = `key ${hex(key).slice(0, 8)}… of small order, h·A = 0`;
    return { name, class: "small-order key", valid: false, ...sealed(key, message, commitment, NONCE) };
  });
}

/**
 * If A or R has a component of order 8, the equations with and without cofactor give different results,
 * unless h is by chance a multiple of 8.
 */
function mixedOrder(): SignatureCase[] {
  const key = BASE.multiply(SECRET).add(TORSION).toBytes();
  const commitment = BASE.multiply(NONCE).toBytes();
  const cases = [true, false].map((divisible) => {
    const message = messageWhere(
      (candidate) => (challenge(commitment, key, candidate) % 8n === 0n) === divisible,
    );
    const scalar = respond(commitment, key, message);
    const name = `key with a part of order 8, h ${divisible ? "" : "not "}divisible by 8`;
    return { name, class: "mixed-order key", valid: divisible, ...sealed(key, message, commitment, scalar) };
  });
  const pureKey = BASE.multiply(SECRET).toBytes();
  const mixed = BASE.multiply(NONCE).add(TORSION).toBytes();
  const message = Buffer.from("mixed R");
  const scalar = respond(mixed, pureKey, message);
  const name = "R with a part of order 8: holds with the cofactor only";
  return [
    ...cases,
    { name, class: "mixed-order R", valid: false, ...sealed(pureKey, message, mixed, scalar) },
  ];
}

/**
 * An R of small order satisfies the equation for s = h·a if h·A has the same component of small order. The
 * neutral element satisfies it for every h.
 */
function encodings(): SignatureCase[] {
  const key = BASE.multiply(SECRET).toBytes();
  const message = Buffer.from("encodings");
  const ofSmallOrder = [
    { name: "R the neutral element, canonical", commitment: fieldElement(1n) },
    { name: "R the neutral element, y = p + 1", commitment: fieldElement(FIELD + 1n) },
    { name: "R the neutral element, sign of x set", commitment: withSign(fieldElement(1n)) },
  ];
  const commitments = ofSmallOrder.map(({ name, commitment }) => {
    const scalar = (challenge(commitment, key, message) * SECRET) % ORDER;
    return { name, class: "small-order R", valid: false, ...sealed(key, message, commitment, scalar) };
  });
  const mixedKey = BASE.multiply(SECRET).add(TORSION).toBytes();
  const others = [1, 2, 3, 4, 5, 6, 7].map((times) => {
    const commitment = multiple(times).toBytes();
    const fitting = messageWhere((m) => (challenge(commitment, mixedKey, m) + BigInt(times)) % 8n === 0n);
    const scalar = (challenge(commitment, mixedKey, fitting) * SECRET) % ORDER;
    const name = `R ${times} times the point of order 8, equation holds`;
    return { name, class: "small-order R", valid: false, ...sealed(mixedKey, fitting, commitment, scalar) };
  });
  const good = signed(message);
  const offCurve = Array.from({ length: 20 }, (_, y) => fieldElement(BigInt(y) + 2n)).find(
    (bytes) => !isOnCurve(bytes),
  );
  const nonCanonical = Array.from({ length: 17 }, (_, y) => fieldElement(FIELD + 2n + BigInt(y))).filter(
    (bytes) => isOnCurve(bytes),
  );
  const keys = [offCurve ?? key, ...nonCanonical].map((bytes) => ({
    name: `key ${hex(bytes).slice(0, 8)}… ${isOnCurve(bytes) ? "with y over p" : "off the curve"}`,
    class: "encoding of A",
    valid: false,
    ...good,
    public_key: hex(bytes),
  }));
  return [...commitments, ...others, ...keys];
}

function scalars(): SignatureCase[] {
  const message = Buffer.from("scalars");
  const key = BASE.multiply(SECRET).toBytes();
  const commitment = BASE.multiply(NONCE).toBytes();
  const scalar = respond(commitment, key, message);
  const cases: [string, bigint, boolean][] = [
    ["s below the order", scalar, true],
    ["s + L", scalar + ORDER, false],
    ["s + 8·L", scalar + 8n * ORDER, false],
    ["s with its top bit set", scalar | (1n << 255n), false],
    ["s = L", ORDER, false],
    ["s = 0", 0n, false],
    ["s off by one", scalar + 1n, false],
  ];
  return cases.map(([name, value, valid]) => ({
    name,
    class: "high s",
    valid,
    ...sealed(key, message, commitment, value),
  }));
}

function lengths(): SignatureCase[] {
  const good = signed(Buffer.from("lengths"));
  const { signature, public_key } = good;
  return [
    { ...good, name: "signature without its last byte", signature: signature.slice(0, -2) },
    { ...good, name: "signature with a byte more", signature: `${signature}00` },
    { ...good, name: "empty signature", signature: "" },
    { ...good, name: "key without its last byte", public_key: public_key.slice(0, -2) },
    { ...good, name: "key with a byte more", public_key: `${public_key}00` },
  ].map((entry) => ({ ...entry, class: "length", valid: false }));
}

function signed(message: Uint8Array): Pick<SignatureCase, "public_key" | "message" | "signature"> {
  const key = BASE.multiply(SECRET).toBytes();
  const commitment = BASE.multiply(NONCE).toBytes();
  return sealed(key, message, commitment, respond(commitment, key, message));
}

function sealed(
  key: Uint8Array,
  message: Uint8Array,
  commitment: Uint8Array,
  scalar: bigint,
): Pick<SignatureCase, "public_key" | "message" | "signature"> {
  return {
    public_key: hex(key),
    message: hex(message),
    signature: hex(commitment) + hex(littleEndian(scalar)),
  };
}

function respond(commitment: Uint8Array, key: Uint8Array, message: Uint8Array): bigint {
  return (NONCE + challenge(commitment, key, message) * SECRET) % ORDER;
}

function challenge(commitment: Uint8Array, key: Uint8Array, message: Uint8Array): bigint {
  const digest = sha512(Buffer.concat([commitment, key, message]));
  return BigInt(`0x${Buffer.from(digest).reverse().toString("hex")}`) % ORDER;
}

function messageWhere(holds: (message: Uint8Array) => boolean): Uint8Array {
  for (let counter = 0; ; counter += 1) {
    const message = Buffer.from(`message ${counter}`);
    if (holds(message)) return message;
  }
}

function multiple(times: number): Point {
  return Array.from({ length: times }).reduce((sum: Point) => sum.add(TORSION), Point.ZERO);
}

function isOnCurve(bytes: Uint8Array): boolean {
  try {
    Point.fromBytes(bytes, true);
    return true;
  } catch {
    return false;
  }
}

function fieldElement(y: bigint): Uint8Array {
  return littleEndian(y);
}

function withSign(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[31] = (copy[31] ?? 0) | 0x80;
  return copy;
}

function littleEndian(value: bigint): Uint8Array {
  return Buffer.from(value.toString(16).padStart(64, "0"), "hex").reverse();
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
