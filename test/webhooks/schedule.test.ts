import fc from "fast-check";
import { expect, test } from "vitest";
import {
  MAX_ATTEMPTS,
  RETRY_DELAYS,
  retryAfterSeconds,
  retryDelay,
  type Sent,
} from "../../src/webhooks/retries_and_suspension.ts";

const now = new Date("2026-03-01T12:00:00.000Z");
const answer = (status: number, retryAfter?: string): Sent => ({
  status,
  retryAfter,
  excerpt: Buffer.alloc(0),
});
const seconds = (attempt: number, sent: Sent, random = 0.5) => retryDelay(attempt, sent, now, random)! / 1000;
const lastRandom = 1 - Number.EPSILON;

test("10 attempts come after 0, 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, 75 h 35 m 5 s in all", () => {
  const delays = Array.from({ length: MAX_ATTEMPTS - 1 }, (_, n) => seconds(n + 1, answer(500)));
  expect(delays).toEqual([5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]);
  expect(delays.reduce((sum, delay) => sum + delay)).toBe(75 * 3600 + 35 * 60 + 5);
  expect(MAX_ATTEMPTS).toBe(10);
});

test("the tenth failure is the last", () => {
  expect(retryDelay(9, answer(500), now, 0.5)).toBeDefined();
  expect(retryDelay(10, answer(500), now, 0.5)).toBeUndefined();
});

test("delays are spread from −20 % to +20 %", () => {
  expect([seconds(3, answer(500), 0), seconds(3, answer(500), lastRandom)]).toEqual([1440, 2160]);
});

test.each([502, 503, 504])("after %i at least 60 s pass, spread above them", (status) => {
  expect([0, 0.25, 0.5, 0.75, lastRandom].map((random) => seconds(1, answer(status), random))).toEqual([
    72, 66, 60, 66, 72,
  ]);
  expect(seconds(2, answer(status))).toBe(300);
});

test.each([408, 425, 429])(
  "after %i it comes again when Retry-After says, 60 s to 24 h, else after 60 s",
  (status) => {
    for (const attempt of [1, 2, 9]) {
      expect([0, 0.5, lastRandom].map((random) => seconds(attempt, answer(status), random))).toEqual([
        72, 60, 72,
      ]);
    }
    expect(["0", "59", "61", "3600", "86400"].map((asked) => seconds(1, answer(status, asked)))).toEqual([
      60, 60, 61, 3600, 86400,
    ]);
    expect(["86401", "999999999"].map((asked) => seconds(9, answer(status, asked)))).toEqual([86400, 86400]);
    expect(seconds(1, answer(status, "soon"))).toBe(60);
    expect(retryDelay(10, answer(status, "60"), now, 0.5)).toBeUndefined();
  },
);

test("after a timeout at least 60 s pass, after a refused connection the schedule alone counts", () => {
  expect(seconds(1, { fault: "timeout", detail: "" })).toBe(60);
  expect(seconds(1, { fault: "connect", detail: "" })).toBe(5);
});

test("Retry-After lengthens the delay to twice as much and never shortens it", () => {
  expect(seconds(2, answer(503, "0"))).toBe(300);
  expect(seconds(2, answer(503, "299"))).toBe(300);
  expect(seconds(2, answer(503, "450"))).toBe(450);
  expect(seconds(2, answer(503, "600"))).toBe(600);
  expect(seconds(2, answer(503, "601"))).toBe(600);
  expect(seconds(2, answer(500, "450"))).toBe(450);
});

test("Retry-After lengthens no delay beyond 24 h", () => {
  expect(seconds(8, answer(503, "99999999"))).toBe(86400);
  expect(seconds(9, answer(503, "99999999"))).toBe(86400);
  expect(seconds(9, answer(503, "99999999"), lastRandom)).toBe(103680);
});

test("Retry-After may be a date", () => {
  expect(retryAfterSeconds("Sun, 01 Mar 2026 12:07:30 GMT", now)).toBe(450);
  expect(retryAfterSeconds("Sun, 01 Mar 2026 11:00:00 GMT", now)).toBe(0);
});

test.each(["", "soon", "-1", "1.5", "1e3", "99999999999", "2026-03-01"])(
  "Retry-After %j is ignored",
  (header) => {
    expect(retryAfterSeconds(header, now)).toBeUndefined();
    expect(seconds(1, answer(500, header))).toBe(5);
  },
);

test("whatever the answer and the chance, the delay stays in its bounds", () => {
  const statuses = fc.constantFrom(500, 503, 301);
  const random = fc.double({ min: 0, max: lastRandom, noNaN: true });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 9 }),
      statuses,
      fc.nat(),
      random,
      (attempt, status, asked, chance) => {
        const delay = seconds(attempt, answer(status, String(asked)), chance);
        const scheduled = RETRY_DELAYS[attempt - 1]!;
        const floor = status === 503 ? Math.max(60, scheduled * 0.8) : scheduled * 0.8;
        expect(delay).toBeGreaterThanOrEqual(Math.floor(floor * 1000) / 1000);
        expect(delay).toBeLessThanOrEqual(Math.min(2 * 1.2 * Math.max(60, scheduled), 1.2 * 86400));
      },
    ),
  );
});
