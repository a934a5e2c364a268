import fc from "fast-check";
import { expect, test } from "vitest";
import { isRefusal } from "../../../keyvault/errors.ts";
import { follow, type Listed } from "../../../keyvault/sign/revocation_list.ts";

const NOW = 1_000;
const TOLERANCE = 60;

/** Lists over few names, so that they meet, repeat and leave each other out. */
const lists = fc
  .array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.constantFrom(0, 1, 900, 939, 940, 1_000, 2_000)), {
    maxLength: 6,
  })
  .map(
    (items): Listed => ({
      certificates: items.map(([name]) => name),
      expiresAt: items.map(([, end]) => end),
    }),
  );

/** The latest end that a list has of each certificate; one without an end never ends. */
function endsOf({ certificates, expiresAt }: Listed): Map<string, number> {
  const ends = new Map<string, number>();
  for (const [index, name] of certificates.entries()) {
    ends.set(name, Math.max(expiresAt[index] || Number.POSITIVE_INFINITY, ends.get(name) ?? 0));
  }
  return ends;
}

test("a list lacks nothing of the last one that may still hold, and its ends are the later ones, in whatever order they are", () => {
  let followed = 0;
  fc.assert(
    fc.property(lists, lists, (last, next) => {
      const [before, asked] = [endsOf(last), endsOf(next)];
      const missing = [...before].filter(([name, end]) => !asked.has(name) && end >= NOW - TOLERANCE);
      const result = follow(last, next, NOW);
      expect(isRefusal(result)).toBe(missing.length > 0);
      if (isRefusal(result)) return;
      followed += 1;
      expect(result.certificates).toEqual(next.certificates);
      const expected = [...asked].map(([name, end]) => [name, Math.max(end, before.get(name) ?? 0)]);
      expect([...endsOf(result)]).toEqual(expected);
    }),
    { numRuns: 5_000 },
  );
  expect(followed).toBeGreaterThan(500);
});
