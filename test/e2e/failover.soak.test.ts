import { afterAll, beforeAll, expect, test } from "vitest";
import { FAILOVERS } from "../support/surroundings/postgres_pair.ts";
import { failOverUnderLoad } from "./failover_load.ts";
import { type FailoverWorld, openFailoverWorld } from "./failover_world.ts";

/** Twice each kind of failover. */
const HOWS = [...FAILOVERS, ...FAILOVERS];
const LONGEST_MS = 2_000;
let world: FailoverWorld;

beforeAll(async () => {
  world = await openFailoverWorld();
});

afterAll(async () => {
  await world?.stop();
});

test("in ten failovers under load, nothing is lost or invented, and every kind of call works within 2 s of the new primary", async () => {
  const { outages, longestMs, differences, counts } = await failOverUnderLoad(world, HOWS);
  console.table(outages);
  console.log(counts);
  expect(Object.entries(differences).filter(([, found]) => found.length > 0)).toEqual([]);
  expect(await world.keyvault("audit", "verify")).toBe(0);
  expect(longestMs).toBeLessThanOrEqual(LONGEST_MS);
});
