import { expect, test, vi } from "vitest";
import { createDataKeys } from "../../../keyvault/keys/data_keys.ts";
import type { Token } from "../../../keyvault/token/client.ts";

const WRAPPED = { tenant: "acc-1", kek: "kek-1", wrapped_data_key: Buffer.from("box") };
const ZEROS = Buffer.alloc(32);
const MINUTE_MS = 60_000;

/** Returns data keys with a token that waits for `gate` and always unwraps to the same key. */
function dataKeysBehind(gate: Promise<void> = Promise.resolve()) {
  let unwraps = 0;
  const token = {
    async unwrap() {
      unwraps += 1;
      await gate;
      return Buffer.alloc(32, 7);
    },
  } as unknown as Token;
  return { dataKeys: createDataKeys(token), unwraps: () => unwraps };
}

const same = (key: Uint8Array): Uint8Array => key;

test("the first use of a data key caches a copy and overwrites the original, later uses share the copy, and clear() overwrites the copy", async () => {
  const { dataKeys, unwraps } = dataKeysBehind();
  const seen = await dataKeys.use(WRAPPED, (key) => Buffer.from(key));
  expect(seen).toEqual(Buffer.alloc(32, 7));
  const { dataKeys: others } = dataKeysBehind();
  expect(await others.use(WRAPPED, same)).toEqual(ZEROS);
  const kept = await others.use(WRAPPED, same);
  expect(kept).toEqual(Buffer.alloc(32, 7));
  others.clear();
  expect(kept).toEqual(ZEROS);
  await dataKeys.use(WRAPPED, same);
  expect(unwraps()).toBe(1);
});

test("a cached key shares its memory with nothing else", async () => {
  const { dataKeys } = dataKeysBehind();
  await dataKeys.use(WRAPPED, same);
  expect((await dataKeys.use(WRAPPED, same)).buffer.byteLength).toBe(ZEROS.length);
});

test("a different wrapped key or tenant is unwrapped by the token and not served from the cache", async () => {
  const { dataKeys, unwraps } = dataKeysBehind();
  await dataKeys.use(WRAPPED, same);
  await dataKeys.use({ ...WRAPPED, wrapped_data_key: Buffer.from("another") }, same);
  await dataKeys.use({ ...WRAPPED, tenant: "acc-2" }, same);
  expect(unwraps()).toBe(3);
});

test("a key that is being unwrapped during clear() is used once and not cached", async () => {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const { dataKeys, unwraps } = dataKeysBehind(gate);
  const using = dataKeys.use(WRAPPED, (key) => Buffer.from(key));
  dataKeys.clear();
  letGo();
  expect(await using).toEqual(Buffer.alloc(32, 7));
  await dataKeys.use(WRAPPED, same);
  expect(unwraps()).toBe(2);
});

test("a cached key is overwritten one minute after its first use", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
  const pass = (ms: number) => {
    now += ms;
    vi.advanceTimersByTime(ms);
  };
  try {
    const { dataKeys, unwraps } = dataKeysBehind();
    await dataKeys.use(WRAPPED, same);
    const kept = await dataKeys.use(WRAPPED, same);
    pass(MINUTE_MS / 2);
    expect(await dataKeys.use(WRAPPED, same)).toBe(kept);
    pass(MINUTE_MS / 2 - 1);
    expect(kept).toEqual(Buffer.alloc(32, 7));
    pass(2);
    expect(kept).toEqual(ZEROS);
    await dataKeys.use(WRAPPED, same);
    expect(unwraps()).toBe(2);
  } finally {
    clock.mockRestore();
    vi.useRealTimers();
  }
});

test("the least recently used key is overwritten if more than 512 keys are cached", async () => {
  const { dataKeys, unwraps } = dataKeysBehind();
  const use = (count: number) => dataKeys.use({ ...WRAPPED, tenant: `acc-${count}` }, same);
  await use(0);
  const kept = await use(0);
  for (let count = 1; count < 512; count += 1) await use(count);
  expect(kept).toEqual(Buffer.alloc(32, 7));
  await use(512);
  expect(kept).toEqual(ZEROS);
  await use(0);
  expect(unwraps()).toBe(514);
});

test("a new data key is overwritten after it is wrapped, even if wrapping fails", async () => {
  const seen: Uint8Array[] = [];
  const wrap = async (dataKey: Uint8Array) => {
    seen.push(dataKey);
    expect(dataKey).not.toEqual(ZEROS);
    if (seen.length > 1) throw new Error("no token");
    return { kek: "kek-1", box: Buffer.alloc(60) };
  };
  const dataKeys = createDataKeys({ wrap } as unknown as Token);
  await dataKeys.create("acc-1");
  await expect(dataKeys.create("acc-1")).rejects.toThrow("no token");
  expect(seen).toEqual([ZEROS, ZEROS]);
});
