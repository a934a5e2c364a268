import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "./world.ts";

/** Returns a number in [0, 1). */
export type Chance = () => number;

/** Breaks a part of the surroundings and repairs it. */
export type Fault = { name: string; inflict(world: World, chance: Chance): Promise<void> };

const SHORTEST_MS = 500;
const LONGEST_MS = 6_000;

/** Waits as long as a fault lasts. */
export const moment = (chance: Chance): Promise<void> =>
  sleep(SHORTEST_MS + chance() * (LONGEST_MS - SHORTEST_MS));
