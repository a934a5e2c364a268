import { ed25519 } from "@noble/curves/ed25519.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ALGORITHMS, type AlgorithmName } from "../../../src/protocol/keys/algorithms.ts";
import { isStrictPoint, SMALL_ORDER_POINTS } from "../../../src/protocol/keys/ed25519_points.ts";
import type { Implementation } from "../../../src/protocol/keys/implementation.ts";
import { ed25519Cases } from "../../vectors/make_ed25519.ts";
import { mlDsa65Cases } from "../../vectors/make_ml_dsa_65.ts";
import type { SignatureCase } from "../../vectors/signature_case.ts";

const NAMES = ["ed25519", "ml_dsa_65"] as const;
const BACKENDS = ["native", "reference"] as const;

test("the runtime supports both algorithms natively", () => {
  expect(NAMES.map((name) => ALGORITHMS[name].native === undefined)).toEqual([false, false]);
});

describe.each(NAMES)("%s", (name) => {
  test.each(BACKENDS)("%s: a signature verifies for its message only", async (backend) => {
    const key = implementation(name, backend).signingKey(Buffer.alloc(32, 5));
    const signature = await key.sign(Buffer.from("a"));
    const verifier = implementation(name, backend).verifyingKey(key.publicKey);
    expect(signature).toHaveLength(ALGORITHMS[name].signatureBytes);
    expect(key.publicKey).toHaveLength(ALGORITHMS[name].publicKeyBytes);
    expect(await verifier?.verify(Buffer.from("a"), signature)).toBe(true);
    expect(await verifier?.verify(Buffer.from("b"), signature)).toBe(false);
  });

  test("both implementations derive the same public key from a seed", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (seed) => {
        const [native, reference] = BACKENDS.map(
          (backend) => implementation(name, backend).signingKey(seed).publicKey,
        );
        expect(Buffer.from(native ?? []).equals(Buffer.from(reference ?? [1]))).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test("each implementation verifies signatures of the other", async () => {
    const bytes = Buffer.from("across");
    for (const [signer, verifier] of [BACKENDS, [...BACKENDS].reverse()]) {
      const key = implementation(name, signer ?? "native").signingKey(Buffer.alloc(32, 6));
      const signature = await key.sign(bytes);
      const verified = implementation(name, verifier ?? "native")
        .verifyingKey(key.publicKey)
        ?.verify(bytes, signature);
      expect(await verified).toBe(true);
    }
  });

  test.each(BACKENDS)("%s: signOnce allows its caller to overwrite the seed immediately", async (backend) => {
    const seed = Buffer.alloc(32, 8);
    const verifier = ALGORITHMS[name].reference.verifyingKey(
      ALGORITHMS[name].reference.signingKey(Buffer.from(seed)).publicKey,
    );
    const signing = implementation(name, backend).signOnce(seed, Buffer.from("once"));
    seed.fill(0);
    expect(await verifier?.verify(Buffer.from("once"), await signing)).toBe(true);
  });

  test.each(BACKENDS)("%s: generate returns a new seed and its public key each time", async (backend) => {
    const { generate } = implementation(name, backend);
    const [one, other] = [await generate(), await generate()];
    const expected = ALGORITHMS[name].reference.signingKey(one.seed).publicKey;
    expect(Buffer.from(one.publicKey).equals(Buffer.from(expected))).toBe(true);
    expect(Buffer.from(one.seed).equals(Buffer.from(other.seed))).toBe(false);
  });

  test("a signing key does not depend on the caller's seed buffer", async () => {
    const seed = Buffer.alloc(32, 7);
    const expected = ALGORITHMS[name].reference.signingKey(Buffer.from(seed)).publicKey;
    for (const backend of BACKENDS) {
      const copy = Buffer.from(seed);
      const key = implementation(name, backend).signingKey(copy);
      copy.fill(0);
      const signature = await key.sign(Buffer.from("later"));
      const verifier = ALGORITHMS[name].reference.verifyingKey(expected);
      expect(await verifier?.verify(Buffer.from("later"), signature)).toBe(true);
    }
  });

  test("both implementations agree on corrupted signatures, keys and messages", async () => {
    const key = implementation(name, "native").signingKey(Buffer.alloc(32, 8));
    const message = Buffer.from("corrupted or not");
    const signature = await key.sign(message);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("signature", "key", "message", "nothing"),
        fc.nat(ALGORITHMS[name].signatureBytes * 8 - 1),
        fc.boolean(),
        async (target, bit, twice) => {
          const corrupted = {
            signature: Buffer.from(signature),
            key: Buffer.from(key.publicKey),
            message: Buffer.from(message),
          };
          if (target !== "nothing") {
            flip(corrupted[target], bit);
            if (twice) flip(corrupted[target], bit * 7 + 1);
          }
          const answers = await answersOf(name, corrupted.key, corrupted.message, corrupted.signature);
          expect(answers.reference).toBe(answers.native);
          expect(answers.native).toBe(target === "nothing");
        },
      ),
      { numRuns: 60 },
    );
  });

  test("both implementations agree on random bytes", async () => {
    const { publicKeyBytes, signatureBytes } = ALGORITHMS[name];
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: publicKeyBytes, maxLength: publicKeyBytes }),
        fc.uint8Array({ maxLength: 10 }),
        fc.uint8Array({ minLength: signatureBytes, maxLength: signatureBytes }),
        async (key, message, signature) => {
          const answers = await answersOf(name, key, message, signature);
          expect(answers).toEqual({ native: false, reference: false });
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe.each([["ed25519", ed25519Cases()] as const, ["ml_dsa_65", mlDsa65Cases()] as const])(
  "%s edge cases",
  (name, cases: SignatureCase[]) => {
    test.each(cases.map((entry) => ({ ...entry, answer: entry.valid ? "accepted" : "refused" })))(
      "$class: $name is $answer by both implementations",
      async ({ public_key, message, signature, valid }) => {
        const [key, bytes, given] = [public_key, message, signature].map((text) => Buffer.from(text, "hex"));
        const answers = await answersOf(
          name,
          key ?? Buffer.alloc(0),
          bytes ?? Buffer.alloc(0),
          given ?? Buffer.alloc(0),
        );
        expect(answers).toEqual({ native: valid, reference: valid });
      },
    );

    test("cover accepted and refused cases in at least six classes", () => {
      expect(cases.some(({ valid }) => valid)).toBe(true);
      expect(new Set(cases.map((entry) => entry.class)).size).toBeGreaterThanOrEqual(6);
    });
  },
);

describe("points in public keys", () => {
  test.each(BACKENDS)("cannot be keys if they have small order or are not canonical: %s", (backend) => {
    const refused = ed25519Cases().filter((entry) => entry.class === "small-order key");
    const keys = refused.map(({ public_key }) => Buffer.from(public_key, "hex"));
    expect(keys).toHaveLength(12);
    for (const key of keys) expect(implementation("ed25519", backend).verifyingKey(key)).toBeUndefined();
  });

  test("have small order only if they are one of the eight points in SMALL_ORDER_POINTS", () => {
    const generator = ed25519.Point.fromHex(SMALL_ORDER_POINTS.at(-2) ?? "");
    const multiples = Array.from({ length: 8 }, (_, times) =>
      generator.multiplyUnsafe(BigInt(times)).toHex(),
    );
    expect([...multiples].sort()).toEqual([...SMALL_ORDER_POINTS].sort());
  });

  test("must be valid for an independent decoder and must not have small order", () => {
    const nearTheField = fc
      .tuple(fc.integer({ min: 0xe0, max: 0xff }), fc.constantFrom(0x7f, 0xff))
      .map(([low, high]) => {
        const bytes = Buffer.alloc(32, 0xff);
        bytes[0] = low;
        bytes[31] = high;
        return bytes;
      });
    const nearZero = fc
      .tuple(fc.integer({ min: 0, max: 20 }), fc.constantFrom(0, 0x80))
      .map(([low, high]) => {
        const bytes = Buffer.alloc(32);
        bytes[0] = low;
        bytes[31] = high;
        return bytes;
      });
    fc.assert(
      fc.property(
        fc.oneof(nearTheField, nearZero, fc.uint8Array({ minLength: 32, maxLength: 32 })),
        (bytes) => {
          return (isStrictPoint(bytes) && isOnCurve(bytes)) === isOrdinaryPoint(bytes);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

function implementation(name: AlgorithmName, backend: (typeof BACKENDS)[number]): Implementation {
  const found = ALGORITHMS[name][backend];
  if (found === undefined) throw new Error(`no ${backend} ${name}`);
  return found;
}

async function answersOf(
  name: AlgorithmName,
  key: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): Promise<Record<"native" | "reference", boolean>> {
  const isLong = key.length === ALGORITHMS[name].publicKeyBytes;
  const answer = async (backend: "native" | "reference") => {
    const verifier = isLong ? implementation(name, backend).verifyingKey(key) : undefined;
    return (await verifier?.verify(message, signature)) ?? false;
  };
  return { native: await answer("native"), reference: await answer("reference") };
}

function isOnCurve(bytes: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(Uint8Array.from(bytes), true);
    return true;
  } catch {
    return false;
  }
}

function isOrdinaryPoint(bytes: Uint8Array): boolean {
  try {
    return !ed25519.Point.fromBytes(Uint8Array.from(bytes), false).isSmallOrder();
  } catch {
    return false;
  }
}

function flip(bytes: Buffer, bit: number): void {
  const at = (bit >> 3) % bytes.length;
  bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
}
