import { percentiles } from "../timing.ts";
import type { Figure } from "./figures.ts";

/** Parts of a series of wait times. Separate percentiles for each part show how much the times vary. */
const PARTS = 4;

/** Figures that are recorded in each round, in the order in which they were first added. */
export type FigureRecord = { add(name: string, unit: string, value: number): void; figures(): Figure[] };

/** Creates an empty record. Adding a value to a figure with another unit throws. */
export function createRecord(): FigureRecord {
  const byName = new Map<string, { unit: string; values: number[] }>();
  return {
    add(name, unit, value) {
      const figure = byName.get(name) ?? { unit, values: [] };
      if (figure.unit !== unit) throw new Error(`${name}: is in ${figure.unit}, not in ${unit}`);
      figure.values.push(value);
      byName.set(name, figure);
    },
    figures: () => [...byName].map(([name, figure]) => ({ name, ...figure })),
  };
}

/** Records the given number of rounds. An unrecorded round before them warms up. */
export async function recordRounds(
  rounds: number,
  measureRound: (record: FigureRecord) => Promise<void>,
): Promise<FigureRecord> {
  await measureRound(createRecord());
  const record = createRecord();
  for (let round = 0; round < rounds; round += 1) await measureRound(record);
  return record;
}

/** Splits values into parts of equal length, in order. Drops the values that remain. */
export function inParts(values: readonly number[], parts: number): number[][] {
  const length = Math.floor(values.length / parts);
  return Array.from({ length: parts }, (_, n) => values.slice(n * length, (n + 1) * length));
}

/** Adds the percentiles of wait times in milliseconds, separately for each part. */
export function addWaits(record: FigureRecord, name: string, waits: readonly number[]): void {
  for (const part of inParts(waits, PARTS)) {
    const { p50, p99 } = percentiles(part);
    record.add(`${name}: p50`, "ms", p50);
    record.add(`${name}: p99`, "ms", p99);
  }
}
