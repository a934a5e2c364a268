import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import { type KeyIdentity, SEEDS_VERSION, unwrapSeeds, wrapSeeds } from "../../../keyvault/keys/wrapping.ts";

const dataKey = randomBytes(32);
const publicKey = {
  ed25519: randomBytes(32).toString("base64"),
  ml_dsa_65: randomBytes(1952).toString("base64"),
};
const identity: KeyIdentity = {
  ...{ keyId: "1".repeat(32), tenant: "acc-1", purpose: "agent", publicKey, version: SEEDS_VERSION },
};
const seeds = { ed25519: randomBytes(32), ml_dsa_65: randomBytes(32) };
const box = wrapSeeds(dataKey, identity, seeds);

const OTHERS: [string, Partial<KeyIdentity>][] = [
  ["key", { keyId: "2".repeat(32) }],
  ["tenant", { tenant: "acc-2" }],
  ["purpose", { purpose: "account_root" }],
  ["Ed25519 public key", { publicKey: { ...publicKey, ed25519: randomBytes(32).toString("base64") } }],
  ["ML-DSA-65 public key", { publicKey: { ...publicKey, ml_dsa_65: randomBytes(1952).toString("base64") } }],
];
const damaged = expect.objectContaining({ code: "key_damaged" });

test("wrapped seeds open only for the key they were wrapped for", () => {
  expect(unwrapSeeds(dataKey, identity, box)).toEqual(seeds);
  for (const [what, other] of OTHERS) {
    expect(() => unwrapSeeds(dataKey, { ...identity, ...other }, box), `another ${what}`).toThrow(damaged);
  }
  expect(() => unwrapSeeds(randomBytes(32), identity, box), "another data key").toThrow(damaged);
});

test.each([2, 3])(
  "a key of the former layout %i, which kept keys in the token, is rejected with an explanation",
  (version) => {
    expect(() => unwrapSeeds(dataKey, { ...identity, version }, box)).toThrow(
      expect.objectContaining({
        code: "key_damaged",
        message: "The key lives in the token, which this version does not support",
      }),
    );
  },
);

test("wrapped seeds with a flipped bit or a different length do not open", () => {
  for (let bit = 0; bit < 8 * box.length; bit += 1) {
    const flipped = Buffer.from(box);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    expect(() => unwrapSeeds(dataKey, identity, flipped), `bit ${bit}`).toThrow(damaged);
  }
  for (const other of [box.subarray(0, -1), box.subarray(0, 10), Buffer.concat([box, Buffer.alloc(1)])]) {
    expect(() => unwrapSeeds(dataKey, identity, other)).toThrow(damaged);
  }
});

test("wrapped seeds that fail to open leave nothing in memory", () => {
  const made: Uint8Array[] = [];
  const from = Buffer.from.bind(Buffer) as (...given: unknown[]) => Buffer<ArrayBuffer>;
  const spy = vi.spyOn(Buffer, "from").mockImplementation((...given: unknown[]) => {
    const buffer = from(...given);
    if (given[0] instanceof ArrayBuffer) made.push(buffer);
    return buffer;
  });
  onTestFinished(() => spy.mockRestore());
  unwrapSeeds(dataKey, identity, box);
  expect(made.map((bytes) => bytes.some((byte) => byte !== 0))).toEqual([true]);
  expect(() => unwrapSeeds(dataKey, { ...identity, tenant: "acc-2" }, box)).toThrow(damaged);
  expect(made.map((bytes) => bytes.some((byte) => byte !== 0))).toEqual([true, false]);
});
