import { expect, test } from "vitest";
import { longLived } from "../support/long_lived/long_lived.ts";

const CALLS = 16;

/** A call that stays in memory until a full garbage collection makes such collections frequent. */
test("a finished call is released from memory", async () => {
  const { heap, buffers } = await longLived(new URL("./support/sixteen_calls.ts", import.meta.url), 400);
  expect(heap / CALLS).toBeLessThan(500);
  expect(buffers / CALLS).toBeLessThan(500);
});
