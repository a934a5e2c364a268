import { afterAll, beforeAll, expect, test } from "vitest";
import type { Failover } from "../support/surroundings/postgres_pair.ts";
import { failOverUnderLoad } from "./failover_load.ts";
import { type FailoverWorld, openFailoverWorld } from "./failover_world.ts";

const HOWS: Failover[] = ["fenced", "frozen", "demoted"];
/** For a busy machine with two cores. `failover.soak.test.ts` has the limit that the service keeps. */
const LONGEST_MS = 30_000;
let world: FailoverWorld;

beforeAll(async () => {
  world = await openFailoverWorld(["second", "worker"]);
});

afterAll(async () => {
  await world?.stop();
});

test("after each of three failovers under load, every kind of call works again, and nothing is lost, invented or allowed twice, with and without a pooler", async () => {
  const { longestMs, differences } = await failOverUnderLoad(world, HOWS);
  expect(longestMs).toBeLessThan(LONGEST_MS);
  expect(Object.entries(differences).filter(([, found]) => found.length > 0)).toEqual([]);
  expect(await world.keyvault("audit", "verify")).toBe(0);
});
