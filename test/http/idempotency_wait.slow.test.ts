import { expect, test } from "vitest";
import { conflict, keyedCalls } from "./support/keyed_calls.ts";

const calls = keyedCalls();

test("a call waits 10 seconds for a first call that hangs on another replica, with few queries", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  calls.before = () => held;
  const first = calls.create("k-1", undefined, calls.adaThere());
  await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
  let asked = 0;
  calls.api.db.on("query", ({ sql }: { sql: string }) => {
    if (sql.includes("idempotency_keys")) asked += 1;
  });
  const begun = performance.now();
  expect(await calls.create("k-1")).toMatchObject(conflict);
  const seconds = (performance.now() - begun) / 1000;
  expect(seconds).toBeGreaterThan(9.5);
  expect(seconds).toBeLessThan(15);
  // The process polls every 50 ms at first, and twice a second at the end.
  expect(asked).toBeLessThan(40);
  release();
  expect((await first).status).toBe(201);
});
