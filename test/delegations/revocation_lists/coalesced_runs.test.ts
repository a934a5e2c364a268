import { expect, test } from "vitest";
import { createCoalescedRuns } from "../../../src/delegations/revocation_lists/coalesced_runs.ts";

/** Runs that end when they are told to, in the order in which they began. */
function steeredRuns() {
  const begun: { name: string; end: PromiseWithResolvers<string> }[] = [];
  const share = createCoalescedRuns((name) => {
    const end = Promise.withResolvers<string>();
    begun.push({ name, end });
    return end.promise;
  });
  return { begun, share };
}

test("who asks while a run goes on shares the next one, which begins after them, with all who ask meanwhile", async () => {
  const { begun, share } = steeredRuns();
  const first = share("a");
  const later = [share("a"), share("a"), share("a")];
  expect(begun).toHaveLength(1);
  begun[0]?.end.resolve("one");
  expect(await first).toBe("one");
  await expect.poll(() => begun.length).toBe(2);
  const last = share("a");
  begun[1]?.end.resolve("two");
  expect(await Promise.all(later)).toEqual(["two", "two", "two"]);
  await expect.poll(() => begun.length).toBe(3);
  begun[2]?.end.resolve("three");
  expect(await last).toBe("three");
  const alone = share("a");
  expect(begun).toHaveLength(4);
  begun[3]?.end.resolve("four");
  expect(await alone).toBe("four");
});

test("names do not wait for each other", async () => {
  const { begun, share } = steeredRuns();
  const answers = [share("a"), share("b")];
  expect(begun.map(({ name }) => name)).toEqual(["a", "b"]);
  begun[1]?.end.resolve("b");
  expect(await answers[1]).toBe("b");
  begun[0]?.end.resolve("a");
  expect(await answers[0]).toBe("a");
});

test("a run that fails fails for those who share it, and for nobody after them", async () => {
  const { begun, share } = steeredRuns();
  const first = share("a");
  const later = [share("a"), share("a")];
  begun[0]?.end.reject(new Error("first"));
  await expect(first).rejects.toThrow("first");
  await expect.poll(() => begun.length).toBe(2);
  const failing = Promise.allSettled(later);
  begun[1]?.end.reject(new Error("second"));
  expect((await failing).map((each) => each.status === "rejected" && each.reason.message)).toEqual([
    "second",
    "second",
  ]);
  const last = share("a");
  begun[2]?.end.resolve("fine");
  expect(await last).toBe("fine");
});
