import { describe, expect, test } from "vitest";
import { encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import {
  failedHalf,
  generateSeeds,
  type HybridSignature,
  importSeeds,
  keyId,
  publicKeyOf,
  signatureViolation,
  signHybrid,
  verifyHybrid,
} from "../../../src/protocol/keys/hybrid.ts";
import { AGENT, ROOT, tamper } from "../../support/chains.ts";

const bytes = Buffer.from("signed");
const code = (expected: string) => expect.objectContaining({ code: expected });

describe("a hybrid signature", () => {
  test("verifies with the key that made it, for its message only", async () => {
    const signature = await signHybrid(ROOT.privateKey, bytes);
    expect(await verifyHybrid(ROOT.publicKey, bytes, signature)).toBe(true);
    expect(await verifyHybrid(ROOT.publicKey, Buffer.from("other"), signature)).toBe(false);
    expect(await verifyHybrid(AGENT.publicKey, bytes, signature)).toBe(false);
  });

  test.each(["ed25519", "ml_dsa_65"] as const)(
    "does not verify if only its %s half is invalid",
    async (half) => {
      const signature = await signHybrid(ROOT.privateKey, bytes);
      const broken: HybridSignature = { ...signature, [half]: tamper(signature[half]) };
      expect(await verifyHybrid(ROOT.publicKey, bytes, broken)).toBe(false);
      expect(await failedHalf(ROOT.publicKey, bytes, broken)).toBe(half);
    },
  );

  test.each(["ed25519", "ml_dsa_65"] as const)(
    "does not verify if only its %s half is from a different key",
    async (half) => {
      const [own, other] = await Promise.all([
        signHybrid(ROOT.privateKey, bytes),
        signHybrid(AGENT.privateKey, bytes),
      ]);
      expect(await failedHalf(ROOT.publicKey, bytes, { ...own, [half]: other[half] })).toBe(half);
    },
  );

  test("fails for its Ed25519 half if both halves are invalid", async () => {
    const signature = await signHybrid(AGENT.privateKey, bytes);
    expect(await signatureViolation(ROOT.publicKey, bytes, signature)).toBe("Ed25519 signature invalid");
  });

  test("also verifies with the reference implementation", async () => {
    const signature = await signHybrid(ROOT.privateKey, bytes);
    expect(await verifyHybrid(ROOT.publicKey, bytes, signature, "reference")).toBe(true);
    expect(await verifyHybrid(ROOT.publicKey, Buffer.from("other"), signature, "reference")).toBe(false);
  });

  test("causes an error if a half has the wrong length", async () => {
    const signature = await signHybrid(ROOT.privateKey, bytes);
    await expect(verifyHybrid(ROOT.publicKey, bytes, { ...signature, ed25519: "AA==" })).rejects.toThrow(
      code("wrong_length"),
    );
  });

  test("causes an error if one half of the key belongs to the other algorithm", async () => {
    const signature = await signHybrid(ROOT.privateKey, bytes);
    await verifyHybrid(ROOT.publicKey, bytes, signature);
    const swapped = { ...ROOT.publicKey, ml_dsa_65: ROOT.publicKey.ed25519 };
    await expect(verifyHybrid(swapped, bytes, signature)).rejects.toThrow(code("wrong_length"));
  });

  test("does not verify with a public key of small order", async () => {
    const signature = await signHybrid(ROOT.privateKey, bytes);
    const neutral = Buffer.alloc(32);
    neutral[0] = 1;
    const weak = { ...ROOT.publicKey, ed25519: encodeBase64(neutral) };
    expect(await failedHalf(weak, bytes, signature)).toBe("ed25519");
  });
});

describe("a hybrid key", () => {
  test("has the published identifier", () => {
    expect(ROOT.id).toBe("92cb0a15572d7a71ed72bbc8dcdfb6b6");
    expect(AGENT.id).toBe("b4a4c71795d676b69f454881a83009b2");
  });

  test("has an identifier that depends on both halves", () => {
    const mixed = keyId({ ed25519: ROOT.publicKey.ed25519, ml_dsa_65: AGENT.publicKey.ml_dsa_65 });
    expect(mixed).toMatch(/^[0-9a-f]{32}$/);
    expect([ROOT.id, AGENT.id]).not.toContain(mixed);
  });

  test("has a cached identifier, but a malformed key has no identifier even if one of its halves is known", () => {
    const { ed25519, ml_dsa_65 } = AGENT.publicKey;
    expect([1, 2].map(() => keyId({ ed25519, ml_dsa_65 }))).toEqual([AGENT.id, AGENT.id]);
    for (const malformed of [
      { ed25519: ed25519.slice(0, -1), ml_dsa_65 },
      { ed25519: `${ed25519} `, ml_dsa_65 },
      { ed25519, ml_dsa_65: `${ml_dsa_65} ` },
      { ed25519: ml_dsa_65, ml_dsa_65: ed25519 },
    ]) {
      expect(() => keyId(malformed)).toThrow(ProtocolError);
      expect(keyId({ ed25519, ml_dsa_65 })).toBe(AGENT.id);
    }
  });

  test("differs for each new pair of seeds", () => {
    const ids = Array.from({ length: 4 }, () => keyId(publicKeyOf(importSeeds(generateSeeds()))));
    expect(new Set(ids).size).toBe(4);
  });

  test("has two different seeds of 32 bytes", () => {
    const { ed25519, ml_dsa_65 } = generateSeeds();
    expect([ed25519.length, ml_dsa_65.length]).toEqual([32, 32]);
    expect(Buffer.from(ed25519).equals(Buffer.from(ml_dsa_65))).toBe(false);
  });

  test.each([31, 33])("cannot be derived from a seed of %d bytes", (length) => {
    const seed = Buffer.alloc(32);
    expect(() => importSeeds({ ed25519: Buffer.alloc(length), ml_dsa_65: seed })).toThrow(
      code("wrong_length"),
    );
    expect(() => importSeeds({ ed25519: seed, ml_dsa_65: Buffer.alloc(length) })).toThrow(
      code("wrong_length"),
    );
  });

  test("does not reveal its secret when printed", () => {
    expect(JSON.stringify(ROOT.privateKey)).not.toContain(
      Buffer.alloc(32, 1).toString("base64").slice(0, 20),
    );
    expect(Object.keys(ROOT.privateKey.ed25519).sort()).toEqual(["publicKey", "sign"]);
  });
});
