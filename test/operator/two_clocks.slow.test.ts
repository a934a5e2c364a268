import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { killHard, until } from "../support/process.ts";
import { shiftedClock } from "../support/surroundings/shifted_clock.ts";
import { tenants } from "./folder/folders.ts";
import {
  agent,
  condition,
  delegation,
  type OperatorFolder,
  only,
  operatorFolder,
  platform,
} from "./operator_folder.ts";

vi.setConfig({ testTimeout: 120_000 });

/* The operator runs in a process whose clock is wrong. The API has the clock of this machine. */

const PROGRAM = join(import.meta.dirname, "operator_process.ts");
const HOUR = 3_600;
const DAY = 24 * HOUR;
const SLOW_MS = 60_000;
const both = (...seconds: number[]) => seconds.flatMap((one) => [one, -one]);

let world: OperatorFolder;
let child: ChildProcess | undefined;
afterEach(async () => {
  if (child !== undefined) await killHard(child);
  await world.dispose();
});

/** Starts an operator with a wrong clock. It registers a platform, and requests a delegation. */
async function start(seconds: number): Promise<void> {
  world = await operatorFolder();
  child = spawn(process.execPath, [PROGRAM, JSON.stringify(world.config)], {
    env: { ...process.env, ...shiftedClock(seconds) },
    stdio: ["ignore", "ignore", "inherit"],
  });
  await world.folders.write("tenants.yaml", tenants());
  await world.folders.write("objects.yaml", platform(), agent(), delegation());
  await world.reaches("Delegation", "bot", "AwaitingApproval", SLOW_MS);
}

/** Makes the API's key this old, and changes the manifest so that the operator looks at its age. */
async function ageKey(seconds: number): Promise<void> {
  const registered = only(world.api.platforms);
  registered.api_key_issued_at = new Date(Date.now() - seconds * 1000).toISOString();
  const keyRotation = { every: "1h", grace: "30m" };
  await world.folders.write("objects.yaml", platform({ keyRotation }), agent(), delegation());
  await until(
    "the change is reconciled",
    async () => {
      const { metadata, status } = await world.state("Platform", "shop");
      return status?.observedGeneration === metadata.generation && (metadata.generation ?? 0) > 1;
    },
    SLOW_MS,
  );
}

const rotations = () => world.api.callsTo("POST", "rotate").length;

describe.each(both(0.2, 0.5, 2, 3, 3 * HOUR, 40 * DAY))(
  "an operator whose clock is wrong by %d s",
  (seconds) => {
    test("brings a delegation into force, dates it by the API's clock, and keeps a young key", async () => {
      await start(seconds);
      world.api.approve(only(world.api.delegations).request_id, ["data:read"]);
      const active = await world.reaches("Delegation", "bot", "Active", SLOW_MS);
      const { lastTransitionTime } = condition(active, "Approved") as unknown as {
        lastTransitionTime: string;
      };
      expect(Math.abs(Date.parse(lastTransitionTime) - Date.now())).toBeLessThan(SLOW_MS);
      await ageKey(HOUR / 2);
      expect(rotations()).toBe(0);
    });
  },
);

test.each(both(0.2, 3))(
  "an operator whose clock is wrong by %d s replaces an old key once",
  async (seconds) => {
    await start(seconds);
    await ageKey(2 * HOUR);
    await until("the key is replaced", () => rotations() === 1, SLOW_MS);
  },
);

test.each(both(3 * HOUR, 40 * DAY))(
  "an operator whose clock is wrong by %d s replaces no key because of its age",
  async (seconds) => {
    await start(seconds);
    await ageKey(2 * HOUR);
    expect(rotations()).toBe(0);
  },
);
