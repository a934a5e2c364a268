import { pino } from "pino";
import { Registry } from "prom-client";
import { beforeEach, expect, test } from "vitest";
import { createMeasurements, type MeasuredState, type Sample } from "../../src/events/measurements.ts";
import { virtualClock } from "./support/time.ts";

const lines: string[] = [];
beforeEach(() => void lines.splice(0));

function setUp(...others: MeasuredState[]) {
  const registry = new Registry();
  const clock = virtualClock();
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const measurements = createMeasurements({ registry, clock, log, readSeconds: 0.2 });
  const state = {
    read: async (): Promise<Record<string, readonly Sample[]>> => ({ waiting: [{ value: 3 }] }),
  };
  measurements.add({
    name: "queue",
    gauges: { waiting: { help: "a" }, by_kind: { help: "b", labelNames: ["kind"] } },
    read: () => state.read(),
  });
  for (const other of others) measurements.add(other);
  const shown = async () =>
    (await registry.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return { measurements, clock, state, shown };
}

const UP = 'deputize_measurement_up{measurement="queue"}';

test("a state has no values before its first measurement", async () => {
  const { measurements, shown } = setUp();
  expect(await shown()).toEqual([`${UP} 0`]);
  await measurements.read();
  expect(await shown()).toEqual([`${UP} 1`, "waiting 3"]);
});

test("a label that is missing in the latest measurement disappears", async () => {
  const { measurements, state, shown } = setUp();
  const kinds = (...names: string[]) => ({ by_kind: names.map((kind) => ({ value: 1, labels: { kind } })) });
  state.read = async () => kinds("a", "b");
  await measurements.read();
  expect(await shown()).toEqual([`${UP} 1`, 'by_kind{kind="a"} 1', 'by_kind{kind="b"} 1']);
  state.read = async () => kinds("b");
  await measurements.read();
  expect(await shown()).toEqual([`${UP} 1`, 'by_kind{kind="b"} 1']);
});

test("a failed measurement removes the former value, does not affect other states, and is logged once", async () => {
  const other: MeasuredState = {
    name: "other",
    gauges: { other: { help: "c" } },
    read: async () => ({ other: [{ value: 7 }] }),
  };
  const { measurements, state, shown } = setUp(other);
  await measurements.read();
  const { read } = state;
  state.read = async () => Promise.reject(new Error("away"));
  await measurements.read();
  await measurements.read();
  expect(await shown()).toEqual([`${UP} 0`, 'deputize_measurement_up{measurement="other"} 1', "other 7"]);
  state.read = read;
  await measurements.read();
  expect(await shown()).toContain("waiting 3");
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(["not measured", "measured again"]);
});

test("a value is exposed for less than a minute after its measurement", async () => {
  const { measurements, clock, shown } = setUp();
  await measurements.read();
  clock.advance(59.999);
  expect(await shown()).toEqual([`${UP} 1`, "waiting 3"]);
  clock.advance(0.001);
  expect(await shown()).toEqual([`${UP} 0`]);
});

test("a measurement that takes too long counts as failed, and its late result is ignored", async () => {
  const { measurements, state, shown } = setUp();
  await measurements.read();
  let end = (_: Record<string, Sample[]>): void => undefined;
  state.read = () =>
    new Promise((resolve) => {
      end = resolve;
    });
  await measurements.read();
  end({ waiting: [{ value: 4 }] });
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(await shown()).toEqual([`${UP} 0`]);
});
