import { expect, test } from "vitest";
import { longLived } from "../../support/long_lived/long_lived.ts";

const PROOFS = 16;

/** Until it is decided, a verify call uses about 50 kB of memory. */
test("a proof is not kept in memory after its verification", async () => {
  const { heap, buffers } = await longLived(new URL("sixteen_proofs.ts", import.meta.url), 60);
  expect(heap / PROOFS).toBeLessThan(2_000);
  expect(buffers / PROOFS).toBeLessThan(500);
});
