import { randomInt } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { killHard, type RunningScript, runScript, until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { agent, delegation, type OperatorFolder, only, operatorFolder, platform } from "./operator_folder.ts";

const ROUNDS = 3;
const program = join(import.meta.dirname, "operator_process.ts");

/** Generates pseudo-random numbers in [0, 1) (Park and Miller). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

describe("a killed operator", () => {
  let world: OperatorFolder;
  let running: RunningScript | undefined;
  beforeEach(async () => {
    world = await operatorFolder();
  });
  afterEach(async () => {
    if (running !== undefined) await killHard(running.child);
    await world.dispose();
  });

  const start = async () => {
    running = await runScript(program, [JSON.stringify(world.config)]);
  };

  test(`does everything exactly once, over ${ROUNDS} kills at random moments of each stage`, {
    timeout: 120_000,
  }, async () => {
    const seed = randomInt(1, 2_147_483_647);
    console.log(`seed ${seed}`);
    const random = randomNumbers(seed);
    const withKills = async (work: () => Promise<void>, rounds = ROUNDS) => {
      await work();
      for (let round = 0; round < rounds; round += 1) {
        await start();
        await sleep(random() * 350);
        if (running !== undefined) await killHard(running.child);
      }
      await start();
    };

    await withKills(async () => {
      const file = [
        tenants(),
        platform({ deletionPolicy: "Delete" }),
        agent({ deletionPolicy: "Delete" }),
        delegation(),
      ];
      await world.folders.write("all.yaml", ...file);
    });
    const { status } = await world.reaches("Delegation", "bot", "AwaitingApproval");
    await world.reaches("Platform", "shop", "Active");
    if (running !== undefined) await killHard(running.child);

    await withKills(async () => world.api.approve(String(status?.requestID), ["data:read"]));
    await world.reaches("Delegation", "bot", "Active");
    const registered = only(world.api.platforms);
    expect(only(world.api.agents).disabled).toBe(false);
    expect(only(world.api.delegations).status).toBe("approved");
    const secret = await world.secretFile();
    expect(secret?.api_key).toBe(registered.api_key);
    expect(registered.undelivered).toBe(false);
    if (running !== undefined) await killHard(running.child);

    await withKills(async () => world.folders.write("all.yaml", tenants()));
    await until("everything is gone", async () => {
      const states = await Promise.all([
        world.folders.state("Delegation", "bot"),
        world.folders.state("Platform", "shop"),
      ]);
      return states.every((state) => state === undefined);
    });
    expect(only(world.api.delegations).status).toBe("revoked");
    expect(only(world.api.agents).disabled).toBe(true);
    expect(only(world.api.platforms).removed).toBe(true);
    expect(await world.secretFile()).toBeUndefined();
  });
});
