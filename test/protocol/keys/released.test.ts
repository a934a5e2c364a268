import { expect, test } from "vitest";
import { longLived } from "../../support/long_lived/long_lived.ts";

test("what a signature was checked over is not held any longer", async () => {
  const { heap, buffers } = await longLived(new URL("one_check.ts", import.meta.url), 800);
  expect(heap).toBeLessThan(2_000);
  expect(buffers).toBeLessThan(2_000);
});
