import { join } from "node:path";
import { shiftedClock } from "../../support/surroundings/shifted_clock.ts";
import type { ProcessName } from "../failover_world.ts";
import { type Fault, moment } from "./fault.ts";

/** Seconds by which any two clocks may differ. */
const CLOCK_SECONDS = 2;

const PROCESSES: Record<ProcessName, string> = {
  keyvault: "vault",
  api: "first API",
  second: "second API",
  worker: "worker",
};

const processes = (Object.entries(PROCESSES) as [ProcessName, string][]).flatMap(([key, name]): Fault[] => [
  {
    name: `${name} killed`,
    async inflict({ processes }, chance) {
      await processes[key].kill();
      await moment(chance);
      await processes[key].start();
    },
  },
  {
    name: `${name} suspended`,
    async inflict({ processes }, chance) {
      processes[key].signal("SIGSTOP");
      await moment(chance);
      processes[key].signal("SIGCONT");
    },
  },
  ...[-CLOCK_SECONDS, CLOCK_SECONDS].map(
    (seconds): Fault => ({
      name: `${name} restarted with a clock that is ${Math.abs(seconds)} s ${seconds < 0 ? "late" : "early"}`,
      async inflict({ processes }) {
        await processes[key].kill();
        await processes[key].start(shiftedClock(seconds));
      },
    }),
  ),
]);

async function must(command: Promise<number | null>): Promise<void> {
  const status = await command;
  if (status !== 0) throw new Error(`A command of the vault ended with status ${status}`);
}

const vault: Fault[] = [
  {
    name: "vault sealed",
    async inflict(world, chance) {
      await must(world.keyvault("seal"));
      await moment(chance);
      await must(world.keyvault("unseal", "--pin-file", join(world.folder, "keyvault", "pin")));
    },
  },
];

export const processFaults: readonly Fault[] = [...processes, ...vault];
