import { Gauge } from "prom-client";
import { addSeconds, type Clock, inTime } from "../clock.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

/** One value of a gauge, with its labels. */
export type Sample = { value: number; labels?: Record<string, string> };

/** A state that is read at intervals, and its gauges. `read` returns samples by the name of their gauge. */
export type MeasuredState = {
  name: string;
  gauges: Record<string, { help: string; labelNames?: readonly string[] }>;
  read(now: Date): Promise<Record<string, readonly Sample[]>>;
};

/** Reads states at intervals, and exposes the latest values. */
export type Measurements = {
  add(state: MeasuredState): void;
  /** Reads all states concurrently. A state that cannot be read does not affect the others. Never rejects. */
  read(): Promise<void>;
};

/** Seconds between measurements. */
export const MEASURE_SECONDS = 15;
/** A measurement fails after this many seconds. */
const READ_SECONDS = 10;
/** Seconds after which a value is no longer exposed, even if later measurements fail. */
const FRESH_SECONDS = 60;

/**
 * Creates the measurements of a process. Gauges have no value if the last measurement of their state failed
 * or is older than a minute. `deputize_measurement_up` shows which states have values.
 */
export function createMeasurements({
  registry,
  clock,
  log,
  readSeconds = READ_SECONDS,
}: Pick<Metrics, "registry"> & { clock: Clock; log: Logger; readSeconds?: number }): Measurements {
  const states: { state: MeasuredState; last: Reading | undefined; isDown: boolean }[] = [];
  new Gauge({
    name: "deputize_measurement_up",
    help: "1 while this process can read the state that a measurement shows, 0 while it cannot",
    labelNames: ["measurement"],
    registers: [registry],
    collect() {
      for (const { state, last } of states) this.set({ measurement: state.name }, isFresh(last) ? 1 : 0);
    },
  });

  function isFresh(reading: Reading | undefined): reading is Reading {
    return reading !== undefined && clock.now() < addSeconds(reading.at, FRESH_SECONDS);
  }

  async function read(entry: (typeof states)[number]): Promise<void> {
    const { state } = entry;
    const at = clock.now();
    try {
      entry.last = {
        at,
        samples: await inTime(
          readSeconds * 1000,
          state.read(at),
          () => new Error(`The reading took longer than ${readSeconds} s`),
        ),
      };
      if (entry.isDown) log.info({ measurement: state.name }, "measured again");
      entry.isDown = false;
    } catch (error) {
      entry.last = undefined;
      if (!entry.isDown) log.warn({ measurement: state.name, err: error }, "not measured");
      entry.isDown = true;
    }
  }

  return {
    add(state) {
      const entry: (typeof states)[number] = { state, last: undefined, isDown: false };
      states.push(entry);
      for (const [name, { help, labelNames = [] }] of Object.entries(state.gauges)) {
        new Gauge({
          name,
          help,
          labelNames: [...labelNames],
          registers: [registry],
          collect() {
            if (labelNames.length === 0) this.remove();
            else this.reset();
            if (!isFresh(entry.last)) return;
            for (const { labels = {}, value } of entry.last.samples[name] ?? []) this.set(labels, value);
          },
        });
      }
    },
    read: async () => void (await Promise.all(states.map(read))),
  };
}

type Reading = { at: Date; samples: Record<string, readonly Sample[]> };
