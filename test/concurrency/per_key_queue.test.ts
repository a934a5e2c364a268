import { expect, test } from "vitest";
import { createPerKeyQueue, shareNextRun } from "../../src/concurrency/per_key_queue.ts";

test("a queue runs the work of one key in order, also after a failure", async () => {
  const oneAtATime = createPerKeyQueue();
  const order: string[] = [];
  const { promise, reject } = Promise.withResolvers<void>();
  const first = oneAtATime("a", () => promise);
  const second = oneAtATime("a", async () => order.push("second of a"));
  await oneAtATime("b", async () => order.push("first of b"));
  reject(new Error("failed"));
  await expect(first).rejects.toThrow("failed");
  await second;
  expect(order).toEqual(["first of b", "second of a"]);
});

function steeredRuns() {
  const begun: { key: string; end: PromiseWithResolvers<string> }[] = [];
  const share = shareNextRun((key) => {
    const end = Promise.withResolvers<string>();
    begun.push({ key, end });
    return end.promise;
  });
  return { begun, share, hasBegun: (count: number) => expect.poll(() => begun.length).toBe(count) };
}

test("calls during a run share the next run, which starts after the current run", async () => {
  const { begun, share, hasBegun } = steeredRuns();
  const first = share("a");
  await hasBegun(1);
  const later = [share("a"), share("a"), share("a")];
  expect(begun).toHaveLength(1);
  begun[0]?.end.resolve("one");
  expect(await first).toBe("one");
  await hasBegun(2);
  const last = share("a");
  begun[1]?.end.resolve("two");
  expect(await Promise.all(later)).toEqual(["two", "two", "two"]);
  await hasBegun(3);
  begun[2]?.end.resolve("three");
  expect(await last).toBe("three");
});

test("different keys do not wait for each other", async () => {
  const { begun, share, hasBegun } = steeredRuns();
  const answers = [share("a"), share("b")];
  await hasBegun(2);
  expect(begun.map(({ key }) => key)).toEqual(["a", "b"]);
  begun[1]?.end.resolve("b");
  expect(await answers[1]).toBe("b");
  begun[0]?.end.resolve("a");
  expect(await answers[0]).toBe("a");
});

test("the failure of a run reaches the callers that share the run, but not later callers", async () => {
  const { begun, share, hasBegun } = steeredRuns();
  const first = share("a");
  await hasBegun(1);
  const later = [share("a"), share("a")];
  begun[0]?.end.reject(new Error("first"));
  await expect(first).rejects.toThrow("first");
  await hasBegun(2);
  const failing = Promise.allSettled(later);
  begun[1]?.end.reject(new Error("second"));
  expect((await failing).map((each) => each.status === "rejected" && each.reason.message)).toEqual([
    "second",
    "second",
  ]);
  const last = share("a");
  await hasBegun(3);
  begun[2]?.end.resolve("fine");
  expect(await last).toBe("fine");
});
