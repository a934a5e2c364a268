import { afterEach, describe, expect, test, vi } from "vitest";
import { createStoredRate } from "../../src/rates/stored_rate.ts";
import { useDatabase } from "../events/support/database.ts";

const home = useDatabase();
afterEach(() => void vi.useRealTimers());

const QUARTER = 15 * 60;
const DAY = 86_400;

/** Sets this machine's clock wrong by some seconds. */
function shiftClock(seconds: number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });
}

function rate(keyPrefix: string, points = 2) {
  return createStoredRate(home.database, { keyPrefix, points, seconds: QUARTER });
}

describe("a rate limit in the database", () => {
  test("refuses uses beyond its points, until the window ends", async () => {
    const limit = rate("window");
    expect(await limit.take("a")).toMatchObject({ isRefused: false, remaining: 1 });
    expect(await limit.take("a")).toMatchObject({ isRefused: false, remaining: 0 });
    const { resetMs, ...refused } = await limit.take("a");
    expect(refused).toEqual({ isRefused: true, remaining: 0 });
    expect(resetMs).toBeGreaterThan((QUARTER - 60) * 1000);
    expect(resetMs).toBeLessThanOrEqual(QUARTER * 1000);
    expect(await limit.take("b")).toMatchObject({ isRefused: false });
    await home.database("rate_limits").update({ expire: Date.now() - 1 });
    expect(await limit.take("a")).toMatchObject({ isRefused: false, remaining: 1 });
  });

  test("counts a use less after giveBack, but never less than none", async () => {
    const limit = rate("given");
    await limit.take("a");
    for (let n = 0; n < 3; n += 1) await limit.giveBack("a");
    expect(await limit.take("a")).toMatchObject({ remaining: 1 });
  });

  test("refuses every use with 0 points", async () => {
    expect(await rate("none", 0).take("a")).toMatchObject({ isRefused: true, remaining: 0 });
  });

  test.each([3 * 3600, 40 * DAY, -3 * 3600, -40 * DAY])(
    "counts the same uses in a process whose clock is wrong by %d s",
    async (seconds) => {
      const limit = rate(`shifted ${seconds}`);
      await limit.take("a");
      shiftClock(seconds);
      expect(await limit.take("a")).toMatchObject({ isRefused: false, remaining: 0 });
      const { isRefused, resetMs } = await limit.take("a");
      expect(isRefused).toBe(true);
      expect(resetMs).toBeLessThanOrEqual(QUARTER * 1000);
      vi.useRealTimers();
      expect(await limit.take("a")).toMatchObject({ isRefused: true });
    },
  );
});
