import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse, stringify } from "yaml";
import { shiftedClock } from "../../support/surroundings/shifted_clock.ts";
import { untilReady } from "../processes.ts";
import { type Fault, moment } from "./fault.ts";
import type { World } from "./world.ts";

type ProcessName = keyof World["processes"];

/** Seconds by which clocks may differ while every process is ready. */
const CLOCK_SECONDS = [2, 3];
const HOUR = 3_600;
/** Seconds by which a process measures that its clock is wrong, so that it is not ready. */
const WRONG_SECONDS = [3 * HOUR, 40 * 24 * HOUR];
const both = (seconds: readonly number[]) => seconds.flatMap((one) => [one, -one]);

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
  ...both(CLOCK_SECONDS).map(
    (seconds): Fault => ({
      name: `${name} restarted with a clock that is ${Math.abs(seconds)} s ${seconds < 0 ? "late" : "early"}`,
      async inflict({ processes }) {
        await processes[key].kill();
        await processes[key].start(shiftedClock(seconds));
      },
    }),
  ),
  {
    name: `${name} with a clock that is wrong by hours or weeks`,
    async inflict({ processes }, chance) {
      const clocks = both(WRONG_SECONDS);
      await processes[key].kill();
      await processes[key].start(shiftedClock(clocks[Math.floor(chance() * clocks.length)] ?? 0));
      await sleep(START_MS);
      await moment(chance);
      await processes[key].kill();
      await processes[key].start();
    },
  },
]);

/** Removes all annotations from the operator's Secrets, as soon as it writes them. */
async function stripAnnotations(folder: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const name of await readdir(folder, { recursive: true })) {
      if (!name.endsWith(".yaml")) continue;
      const secret = parse(await readFile(join(folder, name), "utf8"));
      if (secret?.metadata?.annotations === undefined) continue;
      delete secret.metadata.annotations;
      await writeFile(join(folder, name), stringify(secret));
    }
    await sleep(STRIP_MS, undefined, { signal }).catch(() => undefined);
  }
}

const operator: Fault[] = [
  {
    name: "annotations of the operator's Secrets stripped",
    async inflict({ operatorFolders, sql }, chance) {
      const keys = "select key_prefix, retires_at from api_keys order by key_prefix";
      const before = JSON.stringify(await sql(keys));
      const stopping = new AbortController();
      const stripping = stripAnnotations(operatorFolders.secrets, stopping.signal);
      await moment(chance);
      stopping.abort();
      await stripping;
      const after = JSON.stringify(await sql(keys));
      if (after !== before) throw new Error(`The operator rotated a key: ${before}, ${after}`);
    },
  },
];

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
/** Milliseconds after which a process that was started works, on a machine that is not busy. */
const START_MS = 3_000;
const STRIP_MS = 50;
const READY_MS = 60_000;
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
  {
    name: "HSM has a broken second slot when the vault starts",
    async inflict({ hsm, processes }) {
      hsm.addSlot(DEVICE_ERROR);
      await processes.keyvault.kill();
      await processes.keyvault.start();
      await untilReady(processes.keyvault, READY_MS);
      hsm.removeSlot();
    },
  },
];

export const processFaults: readonly Fault[] = [...processes, ...operator, ...vault, ...kafka, ...hsm];
