import { describe, expect, test } from "vitest";
import { createSingleFlight } from "../../src/concurrency/single_flight.ts";

const flightsOf = (waitMs = 5_000, mostWaiting = 2) =>
  createSingleFlight<number>({
    mostWaiting,
    waitMs,
    full: () => new Error("full"),
    late: () => new Error("late"),
  });

function held() {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  return { work: () => promise, resolve, reject };
}

describe("single flight", () => {
  test("returns the outcome of the first caller's work to all concurrent callers of the same key", async () => {
    const flights = flightsOf();
    const { work, resolve } = held();
    const first = flights.run("a", work);
    const second = flights.run("a", async () => 2);
    expect(await flights.run("b", async () => 3)).toEqual({ outcome: 3, shared: false });
    resolve(1);
    expect([await first, await second]).toEqual([
      { outcome: 1, shared: false },
      { outcome: 1, shared: true },
    ]);
    expect(await flights.run("a", async () => 4)).toEqual({ outcome: 4, shared: false });
  });

  test("lets one of the waiting callers run its own work if the running work fails", async () => {
    const flights = flightsOf();
    const { work, reject } = held();
    const first = flights.run("a", work);
    let done = 0;
    const next = async () => {
      done += 1;
      return done;
    };
    const others = [flights.run("a", next), flights.run("a", next)];
    reject(new Error("nothing"));
    await expect(first).rejects.toThrow("nothing");
    expect((await Promise.all(others)).map(({ outcome }) => outcome)).toEqual([1, 1]);
    expect(done).toBe(1);
  });

  test("limits the number of waiting callers and the time for which they wait", async () => {
    const flights = flightsOf(200);
    const { work, resolve } = held();
    const first = flights.run("a", work);
    const late = Promise.allSettled([flights.run("a", work), flights.run("a", work)]);
    await expect(flights.run("a", work)).rejects.toThrow("full");
    const refusal = { status: "rejected", reason: new Error("late") };
    expect(await late).toEqual([refusal, refusal]);
    const again = flights.run("a", async () => 2);
    resolve(1);
    expect([await first, await again].map(({ shared }) => shared)).toEqual([false, true]);
  });
});
