import { expect, test } from "vitest";
import { longLived } from "../../support/long_lived/long_lived.ts";

test("a verification keeps neither its message nor its objects in memory", async () => {
  const { heap, buffers } = await longLived(new URL("one_check.ts", import.meta.url), 800);
  expect(heap).toBeLessThan(2_000);
  expect(buffers).toBeLessThan(2_000);
});
