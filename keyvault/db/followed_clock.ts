import { Gauge } from "prom-client";
import { type Clock, type ComparedClock, type MachineTime, machineTime } from "../clock.ts";
import { reasonOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { createClient } from "./database.ts";

/** The database's time in Unix milliseconds, and by how much it may be wrong in either direction. */
export type Reading = { time: number; errorMs: number };

/**
 * A clock that follows the database's clock. Between readings, it moves with this machine's elapsed time. So
 * it does not matter if this machine's own clock is wrong or jumps.
 */
export type FollowedClock = ComparedClock & {
  /** Returns why this vault is not ready: its machine's clock is too wrong. `undefined` if it is right. */
  fault(): string | undefined;
  /** Takes a reading. Rejects if the database does not answer. */
  compare(): Promise<void>;
  stop(): void;
};

const EVERY_MS = 60_000;
/** Answers of one reading. The fastest one counts. */
const ANSWERS = 3;
const WARNING_SECONDS = 0.5;
const FAULT_SECONDS = 5;
/** A larger difference between two measures of time means that a clock was set or the machine suspended. */
const STEP_MS = 250;

type Followed = { read(): Promise<Reading>; log: Logger; machine?: MachineTime };

/**
 * Creates a clock that follows what `read` returns. `now` throws before the first reading.
 *
 * If this machine's clock and its elapsed time disagree, somebody set the clock or the machine was suspended.
 * Then the clock moves by the time of the suspension and takes another reading.
 */
export function followClock({ read, log, machine = machineTime }: Followed): FollowedClock {
  const look = () => ({ wall: machine.wall(), elapsed: machine.elapsed(), uptime: machine.uptime() });
  let base: { time: number; at: number } | undefined;
  let seen = look();
  let level = 0;
  let comparing: Promise<void> | undefined;

  function noticeStep(elapsed: number): void {
    if (Math.abs(machine.wall() - seen.wall - (elapsed - seen.elapsed)) < STEP_MS) return;
    const next = look();
    const suspendedMs = next.uptime - seen.uptime - (next.elapsed - seen.elapsed);
    seen = next;
    if (base !== undefined && suspendedMs > STEP_MS) base.time += suspendedMs;
    compareLater();
  }

  async function readOnce(): Promise<void> {
    const { time, errorMs } = await read();
    const at = machine.elapsed();
    const expected = base && base.time + at - base.at;
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

  function compareLater(): void {
    compare().catch((error: unknown) => log.debug({ event: "clock_unread", reason: reasonOf(error) }));
  }

  function now(): number {
    const elapsed = machine.elapsed();
    noticeStep(elapsed);
    if (base === undefined) throw new Error("The database's clock was not read yet");
    return base.time + elapsed - base.at;
  }

  const offsetSeconds = () => (machine.wall() - now()) / 1000;

  function report(): void {
    const offset = offsetSeconds();
    const size = Math.abs(offset);
    const next = size > FAULT_SECONDS ? 2 : size > WARNING_SECONDS ? 1 : 0;
    if (next === level) return;
    level = next;
    const line = { event: level === 0 ? "clock_right" : "clock_wrong", offset_seconds: offset };
    if (level === 0) log.info(line);
    else log.warn({ ...line, remedy: "Make NTP work on the vault's machine and on its database's machine" });
  }

  const timer = setInterval(compareLater, EVERY_MS).unref();
  return {
    now: () => new Date(now()),
    fault() {
      const offset = offsetSeconds();
      if (Math.abs(offset) <= FAULT_SECONDS) return undefined;
      return `The clock of the vault's machine differs by ${offset.toFixed(1)} s from its database's clock`;
    },
    agreed() {
      const time = now();
      return Math.abs(machine.wall() - time) > FAULT_SECONDS * 1000 ? undefined : new Date(time);
    },
    compare,
    stop: () => clearInterval(timer),
  };
}

/** Creates a clock that follows the database's clock. Rejects if the database does not answer. */
export async function followDatabase(databaseUrl: string, log: Logger): Promise<FollowedClock> {
  const clock = followClock({ read: () => readTime(databaseUrl), log });
  try {
    await clock.compare();
  } catch (error) {
    clock.stop();
    throw error;
  }
  return clock;
}

async function readTime(databaseUrl: string): Promise<Reading> {
  const client = createClient(databaseUrl);
  client.on("error", () => {});
  try {
    await client.connect();
    const readings: (Reading & { at: number })[] = [];
    for (let asked = 0; asked < ANSWERS; asked += 1) {
      const begun = machineTime.elapsed();
      const { rows } = await client.query<{ time: number }>(
        "select extract(epoch from clock_timestamp())::float8 * 1000 as time",
      );
      const at = machineTime.elapsed();
      const errorMs = (at - begun) / 2;
      readings.push({ time: (rows[0]?.time ?? Number.NaN) + errorMs, errorMs, at });
    }
    const [best] = readings.sort((one, other) => one.errorMs - other.errorMs);
    if (best === undefined || Number.isNaN(best.time)) throw new Error("The database returned no time");
    return { time: best.time + machineTime.elapsed() - best.at, errorMs: best.errorMs };
  } finally {
    void client.end().catch(() => {});
  }
}

/** Registers the gauge `keyvault_clock_offset_seconds`. Each scrape measures the difference. */
export function showClockOffset({ registry }: Pick<Metrics, "registry">, clock: Clock): void {
  new Gauge({
    name: "keyvault_clock_offset_seconds",
    help: "The clock of the vault's machine minus its database's clock",
    registers: [registry],
    collect() {
      this.set((machineTime.wall() - clock.now().getTime()) / 1000);
    },
  });
}
