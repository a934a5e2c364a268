import { Registry } from "prom-client";
import { expect, test, vi } from "vitest";
import { type ApiClient, followApi } from "../../src/operator/api_client.ts";
import { createOperatorMetrics } from "../../src/operator/operator_metrics.ts";
import { logged } from "../support/logged.ts";

const quiet = logged().log;
const DAY_MS = 86_400_000;

/** An API whose clock is `shiftMs` ahead of this machine's. It fails while `isAway`. */
function shiftedApi(shiftMs: number) {
  const api = { isAway: false, taken: undefined as unknown };
  const client = {
    async readState() {
      if (api.isAway) return { failure: { kind: "unavailable", message: "away" } };
      const time = new Date(Date.now() + shiftMs).toISOString();
      return { value: { time, platforms: {}, agents: {}, delegations: {} } };
    },
  } as unknown as ApiClient;
  return { api, client };
}

test.each([0.2, -0.5, 3, -40 * 86_400])(
  "an answer sets the clock to the API's, which is %d s ahead",
  async (seconds) => {
    const { client } = shiftedApi(seconds * 1000);
    const { clock, taking } = followApi(quiet);
    expect(clock.agreed()).toBeUndefined();
    await taking(client).readState([]);
    expect(Math.abs(clock.now().getTime() - Date.now() - seconds * 1000)).toBeLessThan(100);
    expect(clock.fault() === undefined).toBe(Math.abs(seconds) <= 5);
    expect(clock.agreed() !== undefined).toBe(Math.abs(seconds) <= 5);
  },
);

test("a call that fails leaves the clock as it was", async () => {
  const { api, client } = shiftedApi(DAY_MS);
  const { clock, taking } = followApi(quiet);
  api.isAway = true;
  expect(await taking(client).readState([])).toMatchObject({ failure: { kind: "unavailable" } });
  expect(clock.agreed()).toBeUndefined();
  expect(Math.abs(clock.now().getTime() - Date.now())).toBeLessThan(100);
});

test("the metric shows how far this machine's clock is ahead of the API's", async () => {
  const registry = new Registry();
  const { clock, taking } = followApi(quiet);
  createOperatorMetrics(registry).follows(clock);
  await taking(shiftedApi(-DAY_MS).client).readState([]);
  const [, value] = /^deputize_clock_offset_seconds (.*)$/m.exec(await registry.metrics()) ?? [];
  expect(Number(value)).toBeCloseTo(86_400, 0);
});

test("a change of this machine's clock does not move the time", async () => {
  const { clock, taking } = followApi(quiet);
  await taking(shiftedApi(0).client).readState([]);
  const before = clock.now().getTime();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + DAY_MS });
  try {
    expect(Math.abs(clock.now().getTime() - before)).toBeLessThan(1_000);
    expect(clock.fault()).toContain("ahead of the API's");
  } finally {
    vi.useRealTimers();
  }
});
