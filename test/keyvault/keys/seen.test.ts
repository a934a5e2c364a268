import { expect, test } from "vitest";
import { createSeen } from "../../../keyvault/keys/seen.ts";

test("only a lower number than the highest one noted is earlier", () => {
  const seen = createSeen();
  expect(seen.age("a", 1, seen.now())).toBe("newest");
  seen.note("a", 5);
  seen.note("a", 3);
  expect([4, 5, 6].map((seq) => seen.age("a", seq, seen.now()))).toEqual(["earlier", "newest", "newest"]);
  expect(seen.age("b", 1, seen.now())).toBe("newest");
});

test("what was noted after the reading makes it overtaken, what was noted before makes it earlier", () => {
  const seen = createSeen();
  const before = seen.now();
  seen.note("a", 5);
  expect(seen.age("a", 4, before)).toBe("overtaken");
  expect(seen.age("a", 4, seen.now())).toBe("earlier");
  seen.note("b", 9);
  expect(seen.age("a", 4, seen.now())).toBe("earlier");
  expect(seen.age("a", 5, before)).toBe("newest");
});

test("the names noted last are kept, as many as were said", () => {
  const seen = createSeen(2);
  for (const name of ["a", "b", "a", "c"]) seen.note(name, 5);
  expect(["a", "b", "c"].map((name) => seen.age(name, 4, seen.now()))).toEqual([
    "earlier",
    "newest",
    "earlier",
  ]);
});

test("what lies beyond the chain's end is forgotten, and nothing else", () => {
  const seen = createSeen();
  seen.note("a", 5);
  seen.note("b", 6);
  seen.endAt(5);
  expect(["a", "b"].map((name) => seen.age(name, 4, seen.now()))).toEqual(["earlier", "newest"]);
});
