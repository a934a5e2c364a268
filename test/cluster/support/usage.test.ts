import { expect, test } from "vitest";
import { type Sample, usageBetween, usageLines } from "./usage.ts";

const MIB = 2 ** 20;
const at = (seconds: number, cpuSeconds: number, mib: number): Sample => ({
  at: seconds * 1_000,
  cpuNs: cpuSeconds * 1e9,
  memory: mib * MIB,
});

test("usageBetween() divides a pod's CPU time by the time between its samples, and returns the memory of the later sample", () => {
  const first = new Map([
    ["api", at(0, 10, 90)],
    ["vault", at(4, 1, 50)],
  ]);
  const second = new Map([
    ["api", at(20, 15, 100)],
    ["vault", at(14, 1.5, 60)],
  ]);
  expect(usageBetween(first, second)).toEqual([
    { pod: "api", memoryMiB: 100, cpuMilli: 250 },
    { pod: "vault", memoryMiB: 60, cpuMilli: 50 },
  ]);
});

test("usageBetween() skips a pod that appeared or disappeared between the samples", () => {
  const gone = new Map([["old", at(0, 0, 1)]]);
  expect(usageBetween(gone, new Map([["new", at(10, 1, 1)]]))).toEqual([]);
});

test("usageLines() sorts pods by name, and prints CPU and memory", () => {
  const lines = usageLines("idle", [
    { pod: "b", memoryMiB: 2, cpuMilli: 20 },
    { pod: "a", memoryMiB: 1, cpuMilli: 10 },
  ]);
  expect(lines.map((line) => line.replaceAll(/ +/g, " "))).toEqual([
    "idle a 1 MiB 10 m",
    "idle b 2 MiB 20 m",
  ]);
});
