import { expect, test } from "vitest";
import { createDataKeys } from "../../../keyvault/keys/data_keys.ts";
import type { Token } from "../../../keyvault/token/client.ts";

const WRAPPED = { tenant: "acc-1", kek: "kek-1", wrapped_data_key: Buffer.from("box") };
const ZEROS = Buffer.alloc(32);

/** Data keys of a token that gives the same key each time, once `gate` is open. */
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

test("the first use overwrites what came from the token; later ones have a copy, which a clear overwrites", async () => {
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

test("a key that was on its way when everything was cleared is used once, and not kept", async () => {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const { dataKeys, unwraps } = dataKeysBehind(gate);
  const using = dataKeys.use(WRAPPED, (key) => Buffer.from(key));
  dataKeys.clear();
  letGo();
  expect(await using).toEqual(Buffer.alloc(32, 7));
  await dataKeys.use(WRAPPED, same);
  expect(unwraps()).toBe(2);
});
