import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chances, printedSeed } from "../../events/support/load.ts";
import { until } from "../../support/process.ts";
import { type Load, startLoad } from "../load.ts";
import { differences } from "../load_differences.ts";
import { startDeclaring } from "./declaring.ts";
import type { Fault } from "./fault.ts";
import { FAULTS } from "./faults.ts";
import { openWorld, type World } from "./world.ts";

/**
 * Breaks the surroundings of a whole stack under load, one fault at a time. First each fault once, in random
 * order, then random faults until `SOAK_SECONDS` have passed. `SEED` repeats the order. `SOAK_FAULTS` has
 * parts of the names of the faults to inflict, separated by commas.
 */
const SECONDS = Number(process.env.SOAK_SECONDS ?? 1_800);
const PARTS = (process.env.SOAK_FAULTS ?? "").split(",");
const CHOSEN = FAULTS.filter(({ name }) => PARTS.some((part) => name.includes(part)));
const LONGEST_PAUSE_MS = 2_000;
/** Good calls after which the service works again. */
const WORKING = 5;
const WORKS_MS = 60_000;
const SETTLED_MS = 180_000;

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(async () => {
  await world?.stop();
});

/** Waits until every process is ready and the callers get answers again. */
async function untilWorks({ known, running }: Load): Promise<void> {
  await world.untilReady();
  const before = known.calls.length;
  const works = () => known.calls.slice(before).filter(({ isGood }) => isGood).length >= WORKING;
  await Promise.race([until("callers get answers", works, WORKS_MS), running]);
}

test(
  "under all faults of the surroundings in random order, nothing is lost, invented or allowed twice",
  async () => {
    const chance = chances(printedSeed());
    const load = await startLoad(world.bases, { answer: world.receivers.answer, hook: world.hook });
    const declaring = startDeclaring(world);
    const began = performance.now();
    const inflicted = new Map<string, number>();
    const first = CHOSEN.map((fault) => ({ fault, place: chance() })).sort((a, b) => a.place - b.place);
    for (let n = 0; n < first.length || performance.now() - began < SECONDS * 1_000; n += 1) {
      const fault = first[n]?.fault ?? (CHOSEN[Math.floor(chance() * CHOSEN.length)] as Fault);
      const since = Math.round((performance.now() - began) / 1_000);
      const started = performance.now();
      await fault.inflict(world, chance);
      const broken = performance.now();
      await untilWorks(load);
      const [took, recovery] = [broken - started, performance.now() - broken].map(Math.round);
      console.log(`${since} s  ${fault.name}: ${took} ms, works after another ${recovery} ms`);
      inflicted.set(fault.name, (inflicted.get(fault.name) ?? 0) + 1);
      await sleep(chance() * LONGEST_PAUSE_MS);
    }
    await declaring.stop();
    await load.stop({ hurry, ms: SETTLED_MS });
    const { known } = load;
    console.log(Object.fromEntries(inflicted));
    console.log({
      seconds: Math.round((performance.now() - began) / 1_000),
      calls: known.calls.length,
      failedCalls: known.calls.filter(({ isGood }) => !isGood).length,
      proofs: known.decisions.size,
      certificates: known.certificates.size,
      revocations: known.revoked.size,
      deliveries: known.received.length,
      refusals: known.refusals,
      declared: declaring.names.length,
    });
    const found = {
      ...(await differences(world.superuserUrl("deputize"), known)),
      ...(await declaring.differences()),
    };
    expect(Object.entries(found).filter(([, different]) => different.length > 0)).toEqual([]);
    expect([...known.refusals.keys()].filter((reason) => reason !== "delegation_revoked")).toEqual([]);
    expect(world.hsm.tries()).toMatch(/^r+$/);
    expect(await world.keyvault("audit", "verify")).toBe(0);
    expect(await world.reconcile()).toBe(0);
  },
  (SECONDS + 1_800) * 1_000,
);

/** Ends the waits of deliveries that a fault has made fail. */
async function hurry(): Promise<void> {
  await world.sql("update webhook_endpoints set breaker_open_until = now() where breaker_open_until > now()");
  await world.sql(
    "update webhook_deliveries set next_attempt_at = now() where state = 'pending' and next_attempt_at > now()",
  );
  await sleep(500);
}
