import { expect, test } from "vitest";
import { type Answer, insist, newTally } from "./attempts.ts";

const answer = (status: number, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: new Headers(headers),
  text: "said",
});

/** Answers come one after another. An error stands for an interrupted connection. */
function answersOf(...all: (Answer | Error)[]): () => Promise<Answer> {
  return async () => {
    const next = all.shift();
    if (next === undefined || next instanceof Error) throw next ?? new Error("asked too often");
    return next;
  };
}

test("insist() repeats a call that was interrupted or answered with Retry-After, and counts each attempt", async () => {
  const tally = newTally();
  const call = answersOf(new Error("reset"), answer(503, { "retry-after": "1" }), answer(200));
  expect(await insist("verify", tally, call)).toMatchObject({ status: 200 });
  expect(tally).toEqual({ answered: 1, unavailable: 1, cut: 1, locked: 0, wrong: [] });
});

test.each([
  ["a 5xx other than 503", 500, { "retry-after": "1" }],
  ["a 503 without Retry-After", 503, {}],
])("insist() counts %s as wrong", async (_, status, headers) => {
  const tally = newTally();
  await insist("verify", tally, answersOf(answer(status, headers), answer(200)));
  expect(tally).toMatchObject({ unavailable: 0, wrong: [`verify answered ${status}: said`] });
});

test("insist() returns a refusal as an answer", async () => {
  const tally = newTally();
  expect(await insist("verify", tally, answersOf(answer(409)))).toMatchObject({ status: 409 });
  expect(tally.answered).toBe(1);
});

test("insist() repeats an interrupted call while the call's idempotency key is locked", async () => {
  const tally = newTally();
  const locked = { ...answer(409), text: '{"error":{"code":"idempotency_conflict"}}' };
  expect(await insist("deny", tally, answersOf(locked, answer(200)))).toMatchObject({ status: 200 });
  expect(tally).toMatchObject({ answered: 1, locked: 1, wrong: [] });
});
