import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  HALF_VERSION,
  type KeyIdentity,
  SEEDS_VERSION,
  unwrapHalf,
  unwrapSeeds,
  wrapHalf,
  wrapSeeds,
} from "../../../keyvault/keys/wrapping.ts";

const dataKey = randomBytes(32);
const publicKey = {
  ed25519: randomBytes(32).toString("base64"),
  ml_dsa_65: randomBytes(1952).toString("base64"),
};
const ofVersion = (version: number): KeyIdentity => ({
  ...{ keyId: "1".repeat(32), tenant: "acc-1", purpose: "agent", publicKey, version },
});
const seed = randomBytes(32);
const seeds = { ed25519: seed, ml_dsa_65: randomBytes(32) };

const FORMS = [
  {
    form: "seeds",
    identity: ofVersion(SEEDS_VERSION),
    box: wrapSeeds(dataKey, ofVersion(SEEDS_VERSION), seeds),
    open: (key: Uint8Array, identity: KeyIdentity, box: Uint8Array) => unwrapSeeds(key, identity, box),
    whole: { ed25519: Buffer.from(seed), ml_dsa_65: Buffer.from(seeds.ml_dsa_65) },
  },
  {
    form: "one half's seed",
    identity: ofVersion(HALF_VERSION),
    box: wrapHalf(dataKey, ofVersion(HALF_VERSION), seed),
    open: (key: Uint8Array, identity: KeyIdentity, box: Uint8Array) => unwrapHalf(key, identity, box),
    whole: Buffer.from(seed),
  },
];
const OTHERS: [string, Partial<KeyIdentity>][] = [
  ["key", { keyId: "2".repeat(32) }],
  ["tenant", { tenant: "acc-2" }],
  ["purpose", { purpose: "account_root" }],
  ["Ed25519 public key", { publicKey: { ...publicKey, ed25519: randomBytes(32).toString("base64") } }],
  ["ML-DSA-65 public key", { publicKey: { ...publicKey, ml_dsa_65: randomBytes(1952).toString("base64") } }],
];
const damaged = expect.objectContaining({ code: "key_damaged" });

test.each(FORMS)(
  "wrapped $form opens for exactly the key it was wrapped for",
  ({ identity, box, open, whole }) => {
    expect(open(dataKey, identity, box)).toEqual(whole);
    for (const [what, other] of OTHERS) {
      expect(() => open(dataKey, { ...identity, ...other }, box), `another ${what}`).toThrow(damaged);
    }
    expect(() => open(randomBytes(32), identity, box), "another data key").toThrow(damaged);
  },
);

test.each(FORMS)(
  "wrapped $form with any bit flipped, cut or prolonged does not open",
  ({ identity, box, open }) => {
    for (let bit = 0; bit < 8 * box.length; bit += 1) {
      const flipped = Buffer.from(box);
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => open(dataKey, identity, flipped), `bit ${bit}`).toThrow(damaged);
    }
    for (const other of [box.subarray(0, -1), box.subarray(0, 10), Buffer.concat([box, Buffer.alloc(1)])]) {
      expect(() => open(dataKey, identity, other)).toThrow(damaged);
    }
  },
);

test.each(FORMS)(
  "of wrapped $form nothing is left in memory when it does not open",
  ({ identity, box, open }) => {
    const made: Uint8Array[] = [];
    const from = Buffer.from.bind(Buffer) as (...given: unknown[]) => Buffer<ArrayBuffer>;
    const spy = vi.spyOn(Buffer, "from").mockImplementation((...given: unknown[]) => {
      const buffer = from(...given);
      if (given[0] instanceof ArrayBuffer) made.push(buffer);
      return buffer;
    });
    onTestFinished(() => spy.mockRestore());
    open(dataKey, identity, box);
    expect(made.map((bytes) => bytes.some((byte) => byte !== 0))).toEqual([true]);
    expect(() => open(dataKey, { ...identity, tenant: "acc-2" }, box)).toThrow(damaged);
    expect(made.map((bytes) => bytes.some((byte) => byte !== 0))).toEqual([true, false]);
  },
);
