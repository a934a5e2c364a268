import { setTimeout as sleep } from "node:timers/promises";
import { NAMESPACE } from "./release.ts";
import type { Tools } from "./tools.ts";

/** Memory in MiB, and CPU in thousandths of a processor. */
export type Usage = { pod: string; memoryMiB: number; cpuMilli: number };

/** `at` is in milliseconds, `cpuNs` in nanoseconds, and `memory` in bytes. */
export type Sample = { at: number; cpuNs: number; memory: number };
type Summary = {
  pods: {
    podRef: { name: string; namespace: string };
    cpu?: { time: string; usageCoreNanoSeconds?: number };
    memory?: { workingSetBytes?: number };
  }[];
};

const PAUSE_MS = 1_000;

/** Measures the usage of the release's pods over at least this many seconds, with the kubelet's samples. */
export async function measureUsage(tools: Tools, seconds: number): Promise<Usage[]> {
  const first = await sampleSince(tools, Date.now());
  return usageBetween(first, await sampleSince(tools, Date.now() + seconds * 1_000));
}

/**
 * Returns the usage of the pods that are in both samples. Divides a pod's CPU time by the time between its
 * own samples, because the kubelet does not sample all pods at the same time.
 */
export function usageBetween(
  first: ReadonlyMap<string, Sample>,
  second: ReadonlyMap<string, Sample>,
): Usage[] {
  return [...second].flatMap(([pod, after]) => {
    const before = first.get(pod);
    if (before === undefined) return [];
    const milli = (after.cpuNs - before.cpuNs) / 1_000 / (after.at - before.at);
    return [{ pod, memoryMiB: Math.round(after.memory / 2 ** 20), cpuMilli: Math.round(milli) }];
  });
}

/** Returns a sample of every pod, each taken after `moment`. */
async function sampleSince(tools: Tools, moment: number): Promise<Map<string, Sample>> {
  for (;;) {
    const samples = await sample(tools);
    if ([...samples.values()].every(({ at }) => at >= moment)) return samples;
    await sleep(PAUSE_MS);
  }
}

async function sample(tools: Tools): Promise<Map<string, Sample>> {
  const { items } = await tools.read<{ items: { metadata: { name: string } }[] }>("get", "nodes");
  const texts = items.map(({ metadata }) =>
    tools.kubectl("get", "--raw", `/api/v1/nodes/${metadata.name}/proxy/stats/summary`),
  );
  const pods = (await Promise.all(texts)).flatMap((text) => (JSON.parse(text) as Summary).pods);
  const own = pods.filter(({ podRef }) => podRef.namespace === NAMESPACE);
  return new Map(
    own.flatMap(({ podRef, cpu, memory }) =>
      cpu?.usageCoreNanoSeconds === undefined
        ? []
        : [
            [
              podRef.name,
              {
                at: Date.parse(cpu.time),
                cpuNs: cpu.usageCoreNanoSeconds,
                memory: memory?.workingSetBytes ?? 0,
              },
            ],
          ],
    ),
  );
}

export function usageLines(when: string, usage: readonly Usage[]): string[] {
  const rows = usage.toSorted((one, other) => one.pod.localeCompare(other.pod));
  return rows.map(
    ({ pod, memoryMiB, cpuMilli }) =>
      `${when.padEnd(8)} ${pod.padEnd(36)} ${String(memoryMiB).padStart(5)} MiB ${String(cpuMilli).padStart(5)} m`,
  );
}
