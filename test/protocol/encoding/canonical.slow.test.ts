import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { independentCanonicalJson } from "../../support/canonical_oracle.ts";
import { canonicalValues } from "../../support/canonical_values.ts";

test("canonical JSON equals the output of an independent implementation for 200,000 random values", {
  timeout: 3_600_000,
}, () => {
  let differing = 0;
  fc.assert(
    fc.property(canonicalValues, (value) => {
      const same = canonicalJson(value) === independentCanonicalJson(value);
      if (!same) differing += 1;
      return same;
    }),
    { numRuns: 200_000 },
  );
  expect(differing).toBe(0);
});
