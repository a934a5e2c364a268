import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { processBirth } from "./process/folder_lock.mjs";
import { writeAtomically } from "./state_folder.ts";

const GRACE_MS = 10_000;

const runSchema = z.object({
  pid: z.number(),
  parts: z.record(z.string(), z.object({ pid: z.number(), birth: z.string(), ports: z.array(z.number()) })),
});

/** What `run.json` holds: the stack's process and those of its parts, each named for ever by id and birth. */
export type Run = z.infer<typeof runSchema>;

function pathOf(folder: string): string {
  return join(folder, "run.json");
}

/** Writes who runs now. */
export async function writeRun(folder: string, run: Run): Promise<void> {
  await writeAtomically(pathOf(folder), `${JSON.stringify(run, undefined, 2)}\n`);
}

/**
 * Waits until the processes of an earlier stack on this folder are gone, which end by themselves when that
 * stack was killed; one that has not after ten seconds is killed. Only to be called by who holds the folder.
 */
export async function untilEarlierRunEnded(folder: string): Promise<void> {
  const text = await readFile(pathOf(folder), "utf8").catch(() => "{}");
  const run = runSchema.safeParse(parse(text));
  let living = Object.values(run.data?.parts ?? {});
  const giveUp = performance.now() + GRACE_MS;
  for (let killed = false; living.length > 0; await sleep(25)) {
    living = living.filter(({ pid, birth }) => processBirth(pid) === birth);
    if (!killed && performance.now() > giveUp) {
      killed = true;
      for (const { pid } of living) {
        process.kill(pid, "SIGKILL");
      }
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
