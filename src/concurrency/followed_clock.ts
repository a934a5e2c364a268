import { Gauge } from "prom-client";
import { type Clock, type ComparedClock, type MachineTime, machineTime } from "../clock.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

/** Another machine's time in Unix milliseconds, and by how much it may be wrong in either direction. */
export type Reading = { time: number; errorMs: number };

/**
 * A clock that follows another machine's clock. Between readings, it moves with this machine's elapsed time.
 * So it does not matter if this machine's own clock is wrong or jumps. Before
 * the first reading, `now` returns the time of this machine's clock.
 */
export type FollowedClock = ComparedClock & {
  /** Returns why this process is not ready: this machine's clock is too wrong. `undefined` if it is right. */
  fault(): string | undefined;
  /** Takes a reading. Throws what `read` throws. */
  compare(): Promise<void>;
};

/** Seconds of difference from which the log contains a warning. */
export const WARNING_SECONDS = 0.5;
/** Seconds of difference above which a process is not ready. */
export const FAULT_SECONDS = 5;
/** A larger difference between two measures of time means that a clock was set or the machine suspended. */
const STEP_MS = 250;

/** The clock to follow. `other` names the other machine in messages. */
export type Followed = {
  read(): Promise<Reading>;
  other: string;
  log: Pick<Logger, "warn" | "info" | "debug">;
  machine?: MachineTime;
};

/**
 * Creates a clock. Take the first reading with `compare`.
 *
 * If this machine's clock and its elapsed time disagree, somebody set the clock or the machine was suspended.
 * Then the clock moves by the time of the suspension and takes another reading.
 */
export function followClock({ read, other, log, machine = machineTime }: Followed): FollowedClock {
  let base: { time: number; at: number } | undefined;
  let seen = look();
  let level = 0;
  let comparing: Promise<void> | undefined;

  function look() {
    return { wall: machine.wall(), elapsed: machine.elapsed(), uptime: machine.uptime() };
  }

  function timeAt(elapsed: number): number | undefined {
    return base && base.time + elapsed - base.at;
  }

  function noticeStep(elapsed: number): void {
    if (Math.abs(machine.wall() - seen.wall - (elapsed - seen.elapsed)) < STEP_MS) return;
    const next = look();
    const suspendedMs = next.uptime - seen.uptime - (next.elapsed - seen.elapsed);
    seen = next;
    if (base !== undefined && suspendedMs > STEP_MS) base.time += suspendedMs;
    compare().catch((error: unknown) => log.debug({ err: error }, `${other}'s clock could not be read`));
  }

  async function readOnce(): Promise<void> {
    const { time, errorMs } = await read();
    const at = machine.elapsed();
    const expected = timeAt(at);
    // A slow reading says less than the earlier reading, unless it contradicts that one.
    if (expected === undefined || Math.abs(time - expected) > errorMs) base = { time, at };
    seen = look();
    report();
  }

  function compare(): Promise<void> {
    comparing ??= readOnce().finally(() => {
      comparing = undefined;
    });
    return comparing;
  }

  function now(): number {
    const elapsed = machine.elapsed();
    noticeStep(elapsed);
    return timeAt(elapsed) ?? machine.wall();
  }

  function offsetSeconds(): number {
    return (machine.wall() - now()) / 1000;
  }

  function report(): void {
    const offset = offsetSeconds();
    const size = Math.abs(offset);
    const next = size > FAULT_SECONDS ? 2 : size > WARNING_SECONDS ? 1 : 0;
    if (next === level) return;
    level = next;
    const line = { clock_offset_seconds: offset };
    if (level === 0) log.info(line, `this machine's clock agrees with ${other}'s again`);
    else log.warn(line, describe(offset));
  }

  function describe(offset: number): string {
    const by = `${Math.abs(offset).toFixed(1)} s ${offset > 0 ? "ahead of" : "behind"}`;
    return `this machine's clock is ${by} ${other}'s: make NTP work on both machines`;
  }

  return {
    now: () => new Date(now()),
    fault() {
      const offset = offsetSeconds();
      return Math.abs(offset) > FAULT_SECONDS ? describe(offset) : undefined;
    },
    agreed() {
      const time = now();
      const isWrong = Math.abs(machine.wall() - time) > FAULT_SECONDS * 1000;
      return base === undefined || isWrong ? undefined : new Date(time);
    },
    compare,
  };
}

/** Registers the gauge `deputize_clock_offset_seconds`. Each scrape measures the difference. */
export function showClockOffset({ registry }: Pick<Metrics, "registry">, clock: Clock): void {
  new Gauge({
    name: "deputize_clock_offset_seconds",
    help: "This machine's clock minus the clock that the process follows: the database's, or the API's",
    registers: [registry],
    collect() {
      this.set((machineTime.wall() - clock.now().getTime()) / 1000);
    },
  });
}
