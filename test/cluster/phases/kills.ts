import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../support/process.ts";
import type { Load } from "../load/load.ts";
import {
  COMPONENTS,
  inPod,
  isReady,
  NAMESPACE,
  type Pod,
  podOf,
  podsOf,
  RELEASE,
  untilReady,
} from "../support/release.ts";
import type { Tools } from "../support/tools.ts";
import { timed } from "./install.ts";

/** The number of pods of each component. */
export type Counts = Record<string, number>;

const BETWEEN_MS = 3_000;
/** Options that kill a pod without a grace period. */
const HARD = ["--grace-period=0", "--force"];

export async function countPods(tools: Tools): Promise<Counts> {
  const counts: Counts = {};
  for (const component of COMPONENTS) counts[component] = (await podsOf(tools, component)).length;
  return counts;
}

/**
 * Kills a pod of every component in turn, and waits until the component is complete again. Returns durations.
 */
export async function killEach(tools: Tools, load: Load, counts: Counts): Promise<string[]> {
  const said: string[] = [];
  for (const component of COMPONENTS) {
    const { metadata } = await podOf(tools, component);
    const seconds = await load.fault(`${component} killed`, () =>
      timed(async () => {
        await tools.kubectl("-n", NAMESPACE, "delete", "pod", metadata.name, ...HARD);
        await untilReady(tools, component, counts[component] ?? 1);
      }),
    );
    said.push(`${component} killed, whole again after ${seconds} s`);
    await sleep(BETWEEN_MS);
  }
  return said;
}

/** Restarts the components that serve calls one after another, and returns the durations. */
export async function restartEach(tools: Tools, load: Load): Promise<string[]> {
  const said: string[] = [];
  for (const component of ["api", "worker", "operator"]) {
    const deployment = `deployment/${RELEASE}-${component}`;
    const seconds = await load.fault(`${component} restarted`, () =>
      timed(async () => {
        await tools.kubectl("-n", NAMESPACE, "rollout", "restart", deployment);
        await tools.kubectl("-n", NAMESPACE, "rollout", "status", deployment, "--timeout=300s");
      }),
    );
    said.push(`${component} restarted within ${seconds} s`);
  }
  return said;
}

/**
 * Evicts the pods of a component as a drain does, and returns the answers. The disruption budget allows the
 * second eviction only after the first pod was replaced.
 */
export async function evictEach(
  tools: Tools,
  component: string,
): Promise<{ first: string; second: string; later: string }> {
  const pods = await podsOf(tools, component);
  const [one, other] = pods as [Pod, Pod];
  const answers = { first: await evict(tools, one), second: await evict(tools, other), later: "" };
  await until(
    "the evicted pod is replaced",
    async () => {
      const now = await podsOf(tools, component);
      return (
        now.length === pods.length &&
        now.every((pod) => isReady(pod) && pod.metadata.name !== one.metadata.name)
      );
    },
    300_000,
  );
  answers.later = await evict(tools, other);
  await untilReady(tools, component, pods.length);
  return answers;
}

async function evict(tools: Tools, { metadata }: Pod): Promise<string> {
  const eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name: metadata.name, namespace: NAMESPACE },
  };
  return tools.create(`/api/v1/namespaces/${NAMESPACE}/pods/${metadata.name}/eviction`, eviction).then(
    () => "evicted",
    (error: Error) => (/disruption budget/.test(error.message) ? "refused by the budget" : error.message),
  );
}

/** Returns the result of `deputize reconcile` for the ledger. Rejects if there are differences. */
export async function reconcile(
  tools: Tools,
): Promise<{ accounts: number; postings: number; differences: number }> {
  const said = await inPod(tools, "worker", ["deputize", "reconcile"]);
  return JSON.parse(said.trim().split("\n").at(-1) ?? "");
}
