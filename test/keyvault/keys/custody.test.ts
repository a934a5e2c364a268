import { randomBytes } from "node:crypto";
import { afterEach, expect, test, vi } from "vitest";
import { createCustody } from "../../../keyvault/keys/custody.ts";
import type { DataKeys } from "../../../keyvault/keys/data_keys.ts";
import { wrapSeeds } from "../../../keyvault/keys/wrapping.ts";
import { ALGORITHMS, type Algorithm } from "../../../src/protocol/keys/algorithms.ts";
import { generateKeys, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";

const dataKey = randomBytes(32);
const dataKeys: Pick<DataKeys, "use"> = { use: async (_, work) => work(dataKey) };
const custody = createCustody(dataKeys as DataKeys);
const stored = { tenant: "acc-1", kek: "kek-1", wrapped_data_key: Buffer.alloc(60) };

afterEach(() => vi.restoreAllMocks());

test("a generated key signs for its public key and passes isIntact()", async () => {
  const key = await custody.generate(stored, "acc-1", "agent");
  const bytes = Buffer.from("a statement");
  expect(await verifyHybrid(key.publicKey, bytes, await custody.sign(key, bytes))).toBe(true);
  expect(await custody.isIntact(key)).toBe(true);
});

test.each(["ed25519", "ml_dsa_65"] as const)(
  "a key with another key's %s seed fails isIntact()",
  async (half) => {
    const key = await custody.generate(stored, "acc-1", "agent");
    const [own, other] = [await generateKeys(), await generateKeys()];
    const publicKey = own.publicKey;
    const identity = { ...key, publicKey };
    const seeds = { ...own.seeds, [half]: other.seeds[half] };
    expect(
      await custody.isIntact({ ...identity, wrappedSeeds: wrapSeeds(dataKey, identity, own.seeds) }),
    ).toBe(true);
    expect(await custody.isIntact({ ...identity, wrappedSeeds: wrapSeeds(dataKey, identity, seeds) })).toBe(
      false,
    );
  },
);

test("concurrent signatures with one key are all valid", async () => {
  const key = await custody.generate(stored, "acc-1", "agent");
  const texts = Array.from({ length: 32 }, (_, index) => Buffer.from(`statement ${index}`));
  const signatures = await Promise.all(texts.map((text) => custody.sign(key, text)));
  const verified = await Promise.all(
    texts.map((text, index) => verifyHybrid(key.publicKey, text, signatures[index]!)),
  );
  expect(verified).not.toContain(false);
});

/** Collects the buffers of all seeds that are generated or used after this call. */
function watchSeeds(): Uint8Array[] {
  const seen: Uint8Array[] = [];
  for (const { native, reference } of Object.values<Algorithm>(ALGORITHMS)) {
    const used = native ?? reference;
    const { generate, signOnce } = used;
    vi.spyOn(used, "generate").mockImplementation(async () => {
      const made = await generate();
      seen.push(made.seed);
      return made;
    });
    vi.spyOn(used, "signOnce").mockImplementation((seed, bytes) => {
      seen.push(seed);
      return signOnce(seed, bytes);
    });
  }
  return seen;
}

test("seeds are overwritten after a key is created and after it signs", async () => {
  const seen = watchSeeds();
  const key = await custody.generate(stored, "acc-1", "agent");
  const bytes = Buffer.from("a statement");
  expect(await verifyHybrid(key.publicKey, bytes, await custody.sign(key, bytes))).toBe(true);
  expect(seen).toEqual(Array.from({ length: 4 }, () => Buffer.alloc(32)));
});
