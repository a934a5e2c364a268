import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import type { AttemptResult } from "../../src/events/event_metrics.ts";
import { FRESH_HEALTH, type Health, healthAfter } from "../../src/webhooks/retries_and_suspension.ts";

const start = new Date("2026-03-01T00:00:00.000Z");
const at = (seconds: number) => addSeconds(start, seconds);
const openSeconds = (health: Health) => health.breaker_open_seconds;

/** One attempt after the other, `gap` seconds apart, each as long as nothing. */
function following(verdicts: AttemptResult[], from: Health = FRESH_HEALTH, gap = 0, first = 0): Health {
  return verdicts.reduce(
    (health, verdict, n) => healthAfter(health, verdict, at(first + n * gap), at(first + n * gap)),
    from,
  );
}
const times = (count: number, verdict: AttemptResult): AttemptResult[] => Array(count).fill(verdict);

describe("parallel requests", () => {
  test("start at 4, grow by one with each delivery, and stop at 16", () => {
    expect(FRESH_HEALTH.concurrency).toBe(4);
    expect(following(times(1, "delivered")).concurrency).toBe(5);
    expect(following(times(12, "delivered")).concurrency).toBe(16);
    expect(following(times(13, "delivered")).concurrency).toBe(16);
  });

  test("halve with each failure and stop at 1", () => {
    expect([1, 2, 3, 4].map((count) => following(times(count, "failed")).concurrency)).toEqual([2, 1, 1, 1]);
  });

  test("do not change with a rejection or a blocked attempt", () => {
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

  test("does not count failures across an answer", () => {
    expect(
      following([...times(4, "failed"), "delivered", ...times(4, "failed")]).breaker_open_until,
    ).toBeNull();
    expect(
      following([...times(4, "failed"), "rejected", ...times(4, "failed")]).breaker_open_until,
    ).toBeNull();
  });

  const mixed = (count: number) =>
    Array.from({ length: count }, (_, n) => (n % 2 ? "failed" : "delivered") as AttemptResult);

  test("opens when half of 20 attempts in 60 s failed, not of 19", () => {
    expect(openSeconds(following(mixed(18)))).toBeNull();
    expect(openSeconds(following([...mixed(18), "failed"]))).toBeNull();
    expect(openSeconds(following(mixed(20)))).toBe(60);
  });

  test("does not count attempts of more than 60 s ago", () => {
    expect(openSeconds(following(mixed(20), FRESH_HEALTH, 3.1))).toBe(60);
    expect(openSeconds(following(mixed(20), FRESH_HEALTH, 3.2))).toBeNull();
  });

  test("doubles with each failed probe, to 15 min at most", () => {
    let health = following(times(5, "failed"));
    const seconds: (number | null)[] = [];
    for (let probe = 0; probe < 6; probe++) {
      const probed = health.breaker_open_until!;
      health = healthAfter(health, "failed", probed, probed);
      seconds.push(openSeconds(health));
    }
    expect(seconds).toEqual([120, 240, 480, 900, 900, 900]);
  });

  test("does not take a failure that began before it opened for a probe", () => {
    const open = following(times(5, "failed"));
    expect(healthAfter(open, "failed", at(59), at(70))).toMatchObject({ breaker_open_until: at(60) });
    expect(healthAfter(open, "failed", at(60), at(70))).toMatchObject({ breaker_open_until: at(190) });
  });

  test.each(["delivered", "rejected"] as const)("closes when a probe is %s", (verdict) => {
    expect(healthAfter(following(times(5, "failed")), verdict, at(60), at(60))).toMatchObject({
      breaker_open_until: null,
      breaker_open_seconds: null,
    });
  });

  test("stays as it is when no request was made", () => {
    expect(healthAfter(following(times(5, "failed")), "blocked", at(60), at(60))).toMatchObject({
      breaker_open_until: at(60),
    });
  });
});

describe("suspension", () => {
  const hours = (count: number) => count * 3600;

  test("is immediate when the receiver is gone", () => {
    expect(following(["gone"])).toMatchObject({
      state: "suspended",
      suspend_reason: "gone",
      suspended_at: start,
    });
  });

  test.each(["failed", "rejected", "blocked"] as const)(
    "comes with the first %s attempt after 120 h without a delivery, not a second before",
    (verdict) => {
      const failing = following([verdict]);
      expect(healthAfter(failing, verdict, at(0), at(hours(120) - 1)).state).toBe("active");
      expect(healthAfter(failing, verdict, at(0), at(hours(120)))).toMatchObject({
        state: "suspended",
        suspend_reason: "failing",
      });
    },
  );

  test("is put off by a delivery", () => {
    const delivered = following(["failed", "delivered"], FRESH_HEALTH, hours(100));
    const later = healthAfter(delivered, "failed", at(hours(130)), at(hours(130)));
    expect(later).toMatchObject({ state: "active", failing_since: at(hours(130)) });
  });

  test("keeps its reason and moment", () => {
    const gone = following(["gone"]);
    expect(healthAfter(gone, "failed", at(hours(200)), at(hours(200)))).toMatchObject({
      suspend_reason: "gone",
      suspended_at: start,
    });
  });
});
