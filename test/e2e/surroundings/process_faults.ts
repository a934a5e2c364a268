import { join } from "node:path";
import { shiftedClock } from "../../support/surroundings/shifted_clock.ts";
import { type Fault, moment } from "./fault.ts";
import type { World } from "./world.ts";

type ProcessName = keyof World["processes"];

/** Seconds by which any two clocks may differ. */
const CLOCK_SECONDS = 2;

const PROCESSES: Record<ProcessName, string> = {
  keyvault: "vault",
  api: "first API",
  second: "second API",
  worker: "worker",
  operator: "operator",
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

const kafka: Fault[] = [
  {
    name: "Kafka killed",
    async inflict({ kafka }, chance) {
      await kafka.kill();
      await moment(chance);
      await kafka.start();
    },
  },
  {
    name: "Kafka suspended",
    async inflict({ kafka }, chance) {
      kafka.pause();
      await moment(chance);
      kafka.resume();
    },
  },
];

const [NO_CODE, DEVICE_ERROR, DEVICE_REMOVED, SESSION_INVALID, NOT_PRESENT] = [0, 0x30, 0x32, 0xb3, 0xe0];
const SLOW_MS = 200;
const HANGING_MS = 3_600_000;

/** Faults of the HSM, by the PKCS#11 code and the delay of each signature. */
const signing: [string, number, number][] = [
  ["fails", DEVICE_ERROR, 0],
  ["loses its sessions", SESSION_INVALID, 0],
  ["is slow", NO_CODE, SLOW_MS],
  ["hangs", NO_CODE, HANGING_MS],
];

const hsm: Fault[] = [
  ...signing.map(
    ([how, code, ms]): Fault => ({
      name: `HSM ${how}`,
      async inflict({ hsm }, chance) {
        hsm.fail("C_Sign", code, ms);
        await moment(chance);
        hsm.fail("C_Sign");
      },
    }),
  ),
  {
    name: "HSM disappears",
    async inflict({ hsm }, chance) {
      hsm.fail("C_GetSlotList", NOT_PRESENT);
      hsm.fail("C_Sign", DEVICE_REMOVED);
      await moment(chance);
      hsm.fail("C_Sign");
      hsm.fail("C_GetSlotList");
    },
  },
];

export const processFaults: readonly Fault[] = [...processes, ...vault, ...kafka, ...hsm];
