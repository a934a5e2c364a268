import { constants, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics } from "node:v8";
import type { LongLived } from "./long_lived.ts";

const WARM_UP = 300;
const [, , module = "", times = "0"] = process.argv;
const collect = globalThis.gc as NodeJS.GCFunction;

const { default: work } = (await import(module)) as { default: () => Promise<unknown> };
await repeat(WARM_UP);
await collect({ type: "major", execution: "async" });
let collected = 0;
new PerformanceObserver((list) => {
  const kinds = list.getEntries().map((entry) => (entry as { detail?: { kind: number } }).detail?.kind);
  collected += kinds.filter((kind) => kind === constants.NODE_PERFORMANCE_GC_MAJOR).length;
}).observe({ entryTypes: ["gc"] });
const before = held();
await repeat(Number(times));
// The second collection moves or drops objects that survived the first.
collect({ type: "minor" });
collect({ type: "minor" });
const after = held();
await new Promise((resolve) => setTimeout(resolve, 50));
if (collected > 0) throw new Error("the whole heap was collected, so the measurement is invalid");
const a = (bytes: number) => Math.max(0, Math.round(bytes / Number(times)));
console.log(
  JSON.stringify({ heap: a(after.heap - before.heap), buffers: a(after.buffers - before.buffers) }),
);
process.exit(0);

async function repeat(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await work();
}

function held(): LongLived {
  const old = getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space");
  return { heap: old?.space_used_size ?? Number.NaN, buffers: process.memoryUsage().arrayBuffers };
}
