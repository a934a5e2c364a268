import { expect, test } from "vitest";
import { ApiError, type ErrorCode } from "../../../src/errors.ts";
import { createRefusals } from "../../../src/proofs/admission/refused_proofs.ts";
import { steeredClock } from "../../support/clock.ts";

const caller = { accountId: "account", connectionId: "connection", isCustomer: false };

function guarded(perMinute: number) {
  const clock = steeredClock(new Date("2026-05-01T10:00:00.000Z"));
  const refusals = createRefusals({ perMinute, clock });
  const run = (
    work: () => Promise<{ result: string; allowed: boolean }>,
    agentId = "agent",
    signed = false,
  ) =>
    refusals
      .guard(caller, { agentId, work, isSigned: async () => signed })
      .catch((error: ApiError) => error.code);
  const refuse = (code: ErrorCode, ...who: [agentId?: string, signed?: boolean]) =>
    run(() => Promise.reject(new ApiError(code)), ...who);
  const allow = (...who: [agentId?: string, signed?: boolean]) =>
    run(async () => ({ result: "allowed", allowed: true }), ...who);
  return { clock, run, refuse, allow };
}

test.each(["unavailable", "internal", "rate_limited"] as const)(
  "a proof that fails with %s does not count as refused",
  async (code) => {
    const { refuse } = guarded(1);
    expect([await refuse(code), await refuse(code)]).toEqual([code, code]);
    expect(await refuse("invalid_proof")).toBe("invalid_proof");
    expect(await refuse("invalid_proof")).toBe("rate_limited");
  },
);

test("at most as many proofs run at a time as may still be refused", async () => {
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

test("up to a thousand proofs wait under one rate limit, and the next proof gets rate_limited", async () => {
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

async function times(count: number, call: (n: number) => Promise<string>): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let n = 0; n < count; n += 1) {
    const answer = await call(n);
    counts[answer] = (counts[answer] ?? 0) + 1;
  }
  return counts;
}

test("a known agent's proofs are verified, however many forged proofs name the agent within the signature check limit", async () => {
  const { refuse, allow } = guarded(10);
  await allow();
  expect(await times(40, () => refuse("invalid_proof"))).toEqual({ invalid_proof: 1, rate_limited: 39 });
  expect(await times(20, () => allow("agent", true))).toEqual({ allowed: 20 });
});

test("signature checks stop at four times the refusal limit, until part of the limit is available again", async () => {
  const { clock, refuse, allow } = guarded(10);
  await allow();
  await times(41, () => refuse("invalid_proof"));
  expect(await allow("agent", true)).toBe("rate_limited");
  clock.advance(1.5);
  expect(await allow("agent", true)).toBe("allowed");
});

test("concurrent forged proofs cannot exceed the signature check limit, and a signed proof among them is verified", async () => {
  const { refuse, allow } = guarded(10);
  await allow();
  await times(38, () => refuse("invalid_proof"));
  const answers = await Promise.all([
    allow("agent", true),
    ...Array.from({ length: 30 }, () => refuse("invalid_proof")),
  ]);
  expect(answers).toEqual(["allowed", ...Array.from({ length: 30 }, () => "rate_limited")]);
});

test("refused proofs that a known agent signed have a separate rate limit, so repeating them adds no work", async () => {
  const { refuse, allow } = guarded(20);
  await allow();
  expect(await times(9, () => refuse("invalid_challenge", "agent", true))).toEqual({
    invalid_challenge: 4,
    rate_limited: 5,
  });
  expect(await allow("agent", true)).toBe("rate_limited");
});

test("all known agents together cause at most as much work for refused proofs as unknown agents", async () => {
  const { refuse, allow } = guarded(10);
  const nameOf = (n: number) => `agent ${n}`;
  await times(30, (n) => allow(nameOf(n)));
  const forged = (n: number) => refuse("invalid_proof", nameOf(n));
  expect(await times(30, forged)).toEqual({ invalid_proof: 10, rate_limited: 20 });
  const replayed = (n: number) => refuse("invalid_challenge", nameOf(n), true);
  expect(await times(30, replayed)).toEqual({ invalid_challenge: 10, rate_limited: 20 });
});
