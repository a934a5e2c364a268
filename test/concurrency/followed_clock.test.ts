import { describe, expect, test } from "vitest";
import {
  followClock as followInVault,
  showClockOffset as showInVault,
} from "../../keyvault/db/followed_clock.ts";
import { createMetrics as createVaultMetrics } from "../../keyvault/metrics.ts";
import type { MachineTime } from "../../src/clock.ts";
import { followClock, type Reading, showClockOffset } from "../../src/concurrency/followed_clock.ts";
import { createMetrics } from "../../src/metrics.ts";

const START = Date.UTC(2026, 4, 1);
const HOUR = 3_600_000;

type Part = "service" | "vault";

/** A machine whose clock is wrong by `wrongMs`, and another machine with the right time. */
function worldOf(part: Part, wrongMs = 0) {
  const state = {
    real: START,
    elapsed: 5_000,
    suspended: 0,
    wrongMs,
    errorMs: 1,
    readings: 0,
    isAway: false,
  };
  const machine: MachineTime = {
    wall: () => state.real + state.wrongMs,
    elapsed: () => state.elapsed,
    uptime: () => state.elapsed + state.suspended,
  };
  const lines: [level: string, line: string][] = [];
  const write = (level: string) => (line: object, text?: string) =>
    void lines.push([level, JSON.stringify({ ...line, text })]);
  const log = { warn: write("warn"), info: write("info"), debug: write("debug") } as never;
  async function read(): Promise<Reading> {
    state.readings += 1;
    if (state.isAway) throw new Error("away");
    return { time: state.real, errorMs: state.errorMs };
  }
  const clock =
    part === "vault"
      ? followInVault({ read, log, machine })
      : followClock({ read, log, machine, other: "the database" });
  return {
    clock,
    state,
    lines,
    pass(ms: number) {
      state.real += ms;
      state.elapsed += ms;
    },
    suspend(ms: number) {
      state.real += ms;
      state.suspended += ms;
    },
    /** How far the clock is from the right time, in milliseconds. */
    error: () => clock.now().getTime() - state.real,
  };
}

describe.each<Part>(["service", "vault"])(
  "the clock of the %s, which follows its database's clock",
  (part) => {
    const world = (wrongMs = 0) => worldOf(part, wrongMs);

    test.each([0, 200, -2_000, 3 * HOUR, -3 * HOUR, 40 * 24 * HOUR])(
      "shows the other machine's time if its own machine's clock is wrong by %d ms",
      async (wrongMs) => {
        const { clock, pass, error } = world(wrongMs);
        await clock.compare();
        pass(59_000);
        expect(error()).toBe(0);
      },
    );

    test.each([3 * HOUR, -3 * HOUR, 400])(
      "does not move if somebody sets its machine's clock by %d ms, and compares again",
      async (ms) => {
        const { clock, state, pass, error } = world();
        await clock.compare();
        pass(1_000);
        state.wrongMs += ms;
        expect(error()).toBe(0);
        expect(state.readings).toBe(2);
        pass(1_000);
        expect(error()).toBe(0);
        expect(state.readings).toBe(2);
      },
    );

    test("continues after its machine was suspended, even while the other machine is away", async () => {
      const { clock, state, pass, suspend, error } = world();
      await clock.compare();
      state.isAway = true;
      suspend(2 * HOUR);
      expect(error()).toBe(0);
      expect(state.readings).toBe(2);
      pass(1_000);
      expect(error()).toBe(0);
    });

    test("follows the other machine's clock if that one is set", async () => {
      const { clock, state, error } = world();
      await clock.compare();
      state.real += 10_000;
      state.wrongMs -= 10_000;
      await clock.compare();
      expect(error()).toBe(0);
    });

    test("keeps an exact reading if a slow one does not contradict it", async () => {
      const { clock, state, pass, error } = world();
      await clock.compare();
      state.errorMs = 800;
      pass(1_000);
      state.elapsed += 300;
      await clock.compare();
      expect(error()).toBe(300);
      state.elapsed += 600;
      await clock.compare();
      expect(error()).toBe(0);
    });

    test("makes the process not ready above 5 s, and not at 5 s", async () => {
      const { clock, state } = world(5_000);
      await clock.compare();
      expect(clock.fault()).toBeUndefined();
      expect(clock.agreed()).toEqual(new Date(START));
      state.wrongMs = 5_001;
      expect(clock.fault()).toMatch(/clock is 5\.0 s ahead of |clock .* differs by 5\.0 s/);
      expect(clock.agreed()).toBeUndefined();
      state.wrongMs = -3 * HOUR;
      expect(clock.agreed()).toBeUndefined();
      expect(clock.fault()).toMatch(/clock is 10800\.0 s behind |clock .* differs by -10800\.0 s/);
      state.wrongMs = 0;
      expect(clock.fault()).toBeUndefined();
      expect(clock.agreed()).toEqual(new Date(START));
    });

    test("disagrees if the other machine's clock jumps, even if this machine's clock is right", async () => {
      const { clock, state } = world();
      await clock.compare();
      state.real += 40 * 24 * HOUR;
      state.wrongMs -= 40 * 24 * HOUR;
      await clock.compare();
      expect(clock.agreed()).toBeUndefined();
    });

    test("logs a warning once above 0.5 s and once above 5 s, and a line when the clocks agree again", async () => {
      const { clock, state, lines } = world();
      for (const wrongMs of [500, 501, 600, -6_000, -7_000, 0, 0]) {
        state.wrongMs = wrongMs;
        await clock.compare();
      }
      expect(lines).toEqual([
        ["warn", expect.stringMatching(/offset_seconds":0\.501/)],
        ["warn", expect.stringMatching(/offset_seconds":-6/)],
        ["info", expect.stringMatching(/offset_seconds":0\b/)],
      ]);
    });

    test("rejects a comparison if the other machine does not answer, and takes part in one that runs", async () => {
      const { clock, state } = world();
      state.isAway = true;
      await expect(clock.compare()).rejects.toThrow("away");
      state.isAway = false;
      await Promise.all([clock.compare(), clock.compare()]);
      expect(state.readings).toBe(2);
    });
  },
);

test("the clock of the service agrees with nothing before its first comparison", () => {
  expect(worldOf("service").clock.agreed()).toBeUndefined();
});

test("the clock of the vault has no time before its first comparison", () => {
  expect(() => worldOf("vault").clock.now()).toThrow("was not read yet");
});

test.each([
  ["deputize_clock_offset_seconds", createMetrics(), showClockOffset],
  ["keyvault_clock_offset_seconds", createVaultMetrics(), showInVault],
] as const)("%s is this machine's clock minus the followed clock", async (name, { registry }, show) => {
  show({ registry }, { now: () => new Date(Date.now() - 3_000) });
  const line = (await registry.metrics()).split("\n").find((one) => one.startsWith(`${name} `));
  expect(Number(line?.split(" ")[1])).toBeCloseTo(3, 0);
});
