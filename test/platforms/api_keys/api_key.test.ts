import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apiKeyPrefix, hashApiKey, newApiKey } from "../../../src/platforms/api_keys/api_key.ts";

const characters = [..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"];

describe("an API key", () => {
  test("has the form dpz_<8>_<43>_<6>, and is created with its prefix and SHA-256", () => {
    const key = newApiKey();
    expect(key.apiKey).toMatch(/^dpz_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
    expect(key.apiKey.startsWith(`${key.prefix}_`)).toBe(true);
    expect(key.prefix).toMatch(/^dpz_[0-9A-Za-z]{8}$/);
    expect(key.hash).toEqual(hashApiKey(key.apiKey));
    expect(key.hash).toHaveLength(32);
  });

  test("has the prefix that apiKeyPrefix returns", () => {
    const key = newApiKey();
    expect(apiKeyPrefix(key.apiKey)).toBe(key.prefix);
  });

  test("has the checksum that an independent CRC-32 in base62 computes", () => {
    const key = "dpz_00000000_0000000000000000000000000000000000000000000";
    expect(apiKeyPrefix(`${key}_${checksum(key)}`)).toBe("dpz_00000000");
  });

  test("becomes invalid after any change of one character", () => {
    const { apiKey } = newApiKey();
    fc.assert(
      fc.property(fc.nat(apiKey.length - 1), fc.constantFrom(...characters), (place, character) => {
        const changed = apiKey.slice(0, place) + character + apiKey.slice(place + 1);
        fc.pre(changed !== apiKey);
        expect(apiKeyPrefix(changed)).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  test("has a form that distinguishes it from any other text", () => {
    const { apiKey } = newApiKey();
    for (const text of [
      "",
      "dpz_",
      ` ${apiKey}`,
      `${apiKey}\n`,
      apiKey.toUpperCase(),
      apiKey.slice(1),
      `${apiKey}0`,
    ]) {
      expect(apiKeyPrefix(text)).toBeUndefined();
    }
    fc.assert(fc.property(fc.string(), (text) => apiKeyPrefix(text) === undefined));
  });

  test("never repeats", () => {
    const keys = Array.from({ length: 1_000 }, newApiKey);
    expect(new Set(keys.map((key) => key.apiKey)).size).toBe(keys.length);
  });
});

/** Computes the CRC-32 (IEEE, reflected) bit by bit, in base62. */
function checksum(text: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  let rest = BigInt((crc ^ 0xffffffff) >>> 0);
  let digits = "";
  for (; digits.length < 6; rest /= 62n) digits = characters[Number(rest % 62n)] + digits;
  return digits;
}
