import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FAILOVERS } from "../support/surroundings/postgres_pair.ts";
import { failOverUnderLoad } from "./failover_load.ts";
import { type FailoverWorld, openFailoverWorld, type PooledName } from "./failover_world.ts";

/** Twice each kind of failover. */
const HOWS = [...FAILOVERS, ...FAILOVERS];

/**
 * Names of processes that use PgBouncer, and the limit in milliseconds. PgBouncer keeps its connections to a
 * silent server, until the service gives up on each of them.
 */
describe.each<[string, PooledName[], number]>([
  ["directly", [], 2_000],
  ["through PgBouncer", ["api", "second", "worker"], 10_000],
])("a service that uses its database %s", (_, pooled, longest) => {
  let world: FailoverWorld;

  beforeAll(async () => {
    world = await openFailoverWorld(pooled);
  });

  afterAll(async () => {
    await world?.stop();
  });

  test("loses and invents no data in ten failovers under load, and soon answers every kind of call again", async () => {
    const { outages, longestMs, differences, counts } = await failOverUnderLoad(world, HOWS);
    console.table(outages);
    console.log(counts);
    expect(Object.entries(differences).filter(([, found]) => found.length > 0)).toEqual([]);
    expect(await world.keyvault("audit", "verify")).toBe(0);
    expect(longestMs).toBeLessThanOrEqual(longest);
  });
});
