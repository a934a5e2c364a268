import { expect, test } from "vitest";
import { longLived } from "../support/long_lived/long_lived.ts";

const CALLS = 16;

/**
 * What is held until the heap is collected as a whole makes that happen often, and every call waits for it. A
 * call holds some 40 kB until it is over.
 */
test("a call that is over is not held any longer", async () => {
  const { heap, buffers } = await longLived(new URL("./support/sixteen_calls.ts", import.meta.url), 400);
  expect(heap / CALLS).toBeLessThan(500);
  expect(buffers / CALLS).toBeLessThan(500);
});
