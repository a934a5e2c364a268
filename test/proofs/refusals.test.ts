import { expect, test } from "vitest";
import { ApiError, type ErrorCode } from "../../src/errors.ts";
import { createRefusals } from "../../src/proofs/refusals.ts";
import { steeredClock } from "../support/clock.ts";

const caller = { accountId: "account", connectionId: "connection" };

function guarded(perMinute: number) {
  const clock = steeredClock(new Date("2026-05-01T10:00:00.000Z"));
  const refusals = createRefusals({ perMinute, clock });
  const run = (work: () => Promise<{ result: string; allowed: boolean }>, agentId = "agent") =>
    refusals.guard(caller, agentId, work).catch((error: ApiError) => error.code);
  const refuse = (code: ErrorCode) => run(() => Promise.reject(new ApiError(code)));
  return { run, refuse };
}

test.each(["unavailable", "internal", "rate_limited"] as const)(
  "a proof that ends as %s is not counted as refused",
  async (code) => {
    const { refuse } = guarded(1);
    expect([await refuse(code), await refuse(code)]).toEqual([code, code]);
    expect(await refuse("invalid_proof")).toBe("invalid_proof");
    expect(await refuse("invalid_proof")).toBe("rate_limited");
  },
);

test("no more are worked on at once than may be refused; good ones go on one after the other", async () => {
  const { run } = guarded(2);
  let [now, most] = [0, 0];
  const work = async () => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return { result: "denied", allowed: false };
  };
  const results = await Promise.all(Array.from({ length: 50 }, (_, n) => run(work, `agent ${n}`)));
  expect([new Set(results), most]).toEqual([new Set(["denied"]), 2]);
});

test("a thousand wait under one rate, and the next is told to come again", async () => {
  const { run } = guarded(1);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const work = async () => {
    await held;
    return { result: "denied", allowed: false };
  };
  const waiting = Array.from({ length: 1_001 }, () => run(work));
  expect(await run(work)).toBe("rate_limited");
  release();
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["denied"]));
});
