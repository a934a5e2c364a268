import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../support/process.ts";
import type { Failover } from "../support/surroundings/postgres_pair.ts";
import type { FailoverWorld } from "./failover_world.ts";
import { KINDS, type Known, startLoad, WORKS_MS } from "./load.ts";
import { differences } from "./load_differences.ts";

const CALM_MS = 3_000;

/** Milliseconds from `since` to the last failed call, or to the first good one if none failed, by kind. */
function outages({ calls, arrivals }: Known, since: number): Record<string, number> {
  const found: Record<string, number> = {};
  for (const kind of KINDS) {
    const own = calls.filter((call) => call.kind === kind && call.ended > since);
    const failed = own.filter(({ isGood }) => !isGood).map(({ ended }) => ended);
    const first = own.filter(({ isGood }) => isGood).map(({ ended }) => ended);
    found[kind] = Math.round(Math.max(...failed, Math.min(...first)) - since);
  }
  found.delivery = Math.round(Math.min(...[...arrivals.values()].filter((at) => at > since)) - since);
  return found;
}

/** The result of failovers under load. `outages` are in milliseconds after the new primary was writable. */
export type FailoverReport = {
  outages: ({ how: Failover; promotion: number } & Record<string, number | string>)[];
  longestMs: number;
  differences: Record<string, unknown[]>;
  counts: Record<string, number>;
};

/** Fails over once for each of `hows` under load, and then compares what callers know with the database. */
export async function failOverUnderLoad(
  world: FailoverWorld,
  hows: readonly Failover[],
): Promise<FailoverReport> {
  const { known, stop } = await startLoad(world.bases);
  const found: FailoverReport["outages"] = [];
  await sleep(CALM_MS);
  for (const how of hows) {
    const began = performance.now();
    const since = await world.failOver(how);
    const works = () =>
      Object.values(outages(known, since)).every(Number.isFinite) &&
      known.calls.slice(-20).every(({ isGood }) => isGood);
    await until(`everything works after a failover (${how})`, works, WORKS_MS);
    await sleep(CALM_MS);
    found.push({ how, promotion: Math.round(since - began), ...outages(known, since) });
    await until("every process is ready", async () => {
      return Object.values(await world.readiness()).every((status) => status === 200);
    });
    await world.renew();
    await sleep(CALM_MS);
  }
  await stop();
  return {
    outages: found,
    longestMs: Math.max(
      ...found.flatMap(({ how: _, promotion: __, ...own }) => Object.values(own).map(Number)),
    ),
    differences: await differences(world.superuserUrl("deputize"), known),
    counts: {
      calls: known.calls.length,
      proofs: known.decisions.size,
      certificates: known.certificates.size,
      revocations: known.revoked.size,
      deliveries: known.received.length,
    },
  };
}
