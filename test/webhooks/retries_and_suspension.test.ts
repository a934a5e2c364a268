import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import type { AttemptResult } from "../../src/events/event_metrics.ts";
import {
  FRESH_HEALTH,
  type Health,
  healthAfter,
  isDeferred,
  isStrained,
  MAX_ATTEMPTS,
  RETRY_DELAYS,
  resultOf,
  retryAfterSeconds,
  retryDelay,
  type SendErrorCode,
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

test("the delays between the 10 attempts are 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, in total 75 h 35 m 5 s", () => {
  const delays = Array.from({ length: MAX_ATTEMPTS - 1 }, (_, n) => seconds(n + 1, answer(500)));
  expect(delays).toEqual([5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]);
  expect(delays.reduce((sum, delay) => sum + delay)).toBe(75 * 3600 + 35 * 60 + 5);
  expect(MAX_ATTEMPTS).toBe(10);
});

test("no attempt follows the tenth failure", () => {
  expect(retryDelay(9, answer(500), now, 0.5)).toBeDefined();
  expect(retryDelay(10, answer(500), now, 0.5)).toBeUndefined();
});

test("delays vary from −20 % to +20 %", () => {
  expect([seconds(3, answer(500), 0), seconds(3, answer(500), lastRandom)]).toEqual([1440, 2160]);
});

test.each([502, 503, 504])("after a response of %i, the delay varies but is at least 60 s", (status) => {
  expect([0, 0.25, 0.5, 0.75, lastRandom].map((random) => seconds(1, answer(status), random))).toEqual([
    72, 66, 60, 66, 72,
  ]);
  expect(seconds(2, answer(status))).toBe(300);
});

test.each([408, 425, 429])(
  "after a response of %i, the delay follows Retry-After between 60 s and 24 h, or is 60 s",
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

test("the delay after a timeout is at least 60 s, but after a refused connection it follows the schedule", () => {
  expect(seconds(1, { fault: "timeout", detail: "" })).toBe(60);
  expect(seconds(1, { fault: "connect", detail: "" })).toBe(5);
});

test("Retry-After lengthens the delay to at most double and never shortens it", () => {
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

test("the delay stays within its limits for any response and any random value", () => {
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

const fault = (name: SendErrorCode): Sent => ({ fault: name, detail: "" });
const statuses = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);

test("a 2xx response counts as delivered", () => {
  for (const status of statuses(200, 299)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "delivered"]);
  }
});

test("a redirect counts as a failed attempt", () => {
  for (const status of statuses(300, 399)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "failed"]);
  }
});

test("410 means that the receiver is gone", () => expect(resultOf(answer(410))).toBe("gone"));

test("408, 425 and 429 ask for a retry, and every other 4xx is a rejection", () => {
  for (const status of statuses(400, 499).filter((each) => each !== 410)) {
    const expected = [408, 425, 429].includes(status) ? "failed" : "rejected";
    expect([status, resultOf(answer(status))]).toEqual([status, expected]);
  }
  expect(statuses(100, 599).filter((status) => isDeferred(answer(status)))).toEqual([408, 425, 429]);
  expect(isDeferred(fault("timeout"))).toBe(false);
});

test("5xx and unknown statuses count as failed attempts, which are retried", () => {
  for (const status of statuses(500, 999)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "failed"]);
  }
});

test("an attempt without a response is retried, but an attempt to a forbidden address is not", () => {
  for (const name of ["timeout", "dns", "connect", "network", "unprepared"] as const) {
    expect([name, resultOf(fault(name))]).toEqual([name, "failed"]);
  }
  expect(resultOf(fault("forbidden_address"))).toBe("blocked");
});

test("only timeouts, 502, 503 and 504 are signs of overload", () => {
  const strained = statuses(100, 599).filter((status) => isStrained(answer(status)));
  expect(strained).toEqual([502, 503, 504]);
  const faults = ["timeout", "dns", "connect", "network", "forbidden_address", "unprepared"] as const;
  expect(faults.filter((name) => isStrained(fault(name)))).toEqual(["timeout"]);
});

const start = new Date("2026-03-01T00:00:00.000Z");
const at = (seconds: number) => addSeconds(start, seconds);
const openSeconds = (health: Health) => health.breaker_open_seconds;

/** Returns the health after instantaneous attempts, `gap` seconds apart. */
function following(verdicts: AttemptResult[], from: Health = FRESH_HEALTH, gap = 0, first = 0): Health {
  return verdicts.reduce(
    (health, verdict, n) => healthAfter(health, verdict, at(first + n * gap), at(first + n * gap)),
    from,
  );
}
const times = (count: number, verdict: AttemptResult): AttemptResult[] => Array(count).fill(verdict);

describe("the limit of concurrent requests", () => {
  test("starts at 4, grows by one with each delivery, and stops at 16", () => {
    expect(FRESH_HEALTH.concurrency).toBe(4);
    expect(following(times(1, "delivered")).concurrency).toBe(5);
    expect(following(times(12, "delivered")).concurrency).toBe(16);
    expect(following(times(13, "delivered")).concurrency).toBe(16);
  });

  test("halves with each failure, and stops at 1", () => {
    expect([1, 2, 3, 4].map((count) => following(times(count, "failed")).concurrency)).toEqual([2, 1, 1, 1]);
  });

  test("does not change after a rejection or a blocked attempt", () => {
    expect(following(["rejected", "blocked"]).concurrency).toBe(4);
  });
});

describe("the breaker", () => {
  test("opens for 60 s at the fifth failure in a row, not at the fourth", () => {
    expect(following(times(4, "failed")).breaker_open_until).toBeNull();
    expect(following(times(5, "failed"))).toMatchObject({
      breaker_open_until: at(60),
      breaker_open_seconds: 60,
    });
  });

  test("restarts the count of failures after any other response", () => {
    expect(
      following([...times(4, "failed"), "delivered", ...times(4, "failed")]).breaker_open_until,
    ).toBeNull();
    expect(
      following([...times(4, "failed"), "rejected", ...times(4, "failed")]).breaker_open_until,
    ).toBeNull();
  });

  const mixed = (count: number) =>
    Array.from({ length: count }, (_, n) => (n % 2 ? "failed" : "delivered") as AttemptResult);

  test("opens if half of 20 attempts within 60 s failed, but not with 19 attempts", () => {
    expect(openSeconds(following(mixed(18)))).toBeNull();
    expect(openSeconds(following([...mixed(18), "failed"]))).toBeNull();
    expect(openSeconds(following(mixed(20)))).toBe(60);
  });

  test("ignores attempts older than 60 s", () => {
    expect(openSeconds(following(mixed(20), FRESH_HEALTH, 3.1))).toBe(60);
    expect(openSeconds(following(mixed(20), FRESH_HEALTH, 3.2))).toBeNull();
  });

  test("doubles its open time with each failed probe, up to 15 min", () => {
    let health = following(times(5, "failed"));
    const seconds: (number | null)[] = [];
    for (let probe = 0; probe < 6; probe++) {
      const probed = health.breaker_open_until!;
      health = healthAfter(health, "failed", probed, probed);
      seconds.push(openSeconds(health));
    }
    expect(seconds).toEqual([120, 240, 480, 900, 900, 900]);
  });

  test("does not count a failed attempt as a probe if the attempt began before the breaker opened", () => {
    const open = following(times(5, "failed"));
    expect(healthAfter(open, "failed", at(59), at(70))).toMatchObject({ breaker_open_until: at(60) });
    expect(healthAfter(open, "failed", at(60), at(70))).toMatchObject({ breaker_open_until: at(190) });
  });

  test.each(["delivered", "rejected"] as const)("closes if a probe is %s", (verdict) => {
    expect(healthAfter(following(times(5, "failed")), verdict, at(60), at(60))).toMatchObject({
      breaker_open_until: null,
      breaker_open_seconds: null,
    });
  });

  test("does not change after an attempt without a request", () => {
    expect(healthAfter(following(times(5, "failed")), "blocked", at(60), at(60))).toMatchObject({
      breaker_open_until: at(60),
    });
  });
});

describe("a suspension", () => {
  const hours = (count: number) => count * 3600;

  test("begins immediately if the receiver is gone", () => {
    expect(following(["gone"])).toMatchObject({
      state: "suspended",
      suspend_reason: "gone",
      suspended_at: start,
    });
  });

  test.each(["failed", "rejected", "blocked"] as const)(
    "begins with the first %s attempt after 120 h without a delivery, not a second earlier",
    (verdict) => {
      const failing = following([verdict]);
      expect(healthAfter(failing, verdict, at(0), at(hours(120) - 1)).state).toBe("active");
      expect(healthAfter(failing, verdict, at(0), at(hours(120)))).toMatchObject({
        state: "suspended",
        suspend_reason: "failing",
      });
    },
  );

  test("starts later if a delivery succeeds meanwhile", () => {
    const delivered = following(["failed", "delivered"], FRESH_HEALTH, hours(100));
    const later = healthAfter(delivered, "failed", at(hours(130)), at(hours(130)));
    expect(later).toMatchObject({ state: "active", failing_since: at(hours(130)) });
  });

  test("keeps its reason and time after later attempts", () => {
    const gone = following(["gone"]);
    expect(healthAfter(gone, "failed", at(hours(200)), at(hours(200)))).toMatchObject({
      suspend_reason: "gone",
      suspended_at: start,
    });
  });
});
