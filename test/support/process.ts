import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";

/** A script that runs with the same Node binary as this process, and has printed its first line. */
export type RunningScript = {
  child: ChildProcess;
  firstLine: string;
};

/**
 * Runs a TypeScript file and waits for its first line of output. The script writes to this process's standard
 * error.
 */
export async function runScript(path: string, args: string[]): Promise<RunningScript> {
  const child = spawn(process.execPath, [path, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [firstLine] = (await Promise.race([once(lines, "line"), once(child, "exit").then(() => [""])])) as [
    string,
  ];
  lines.on("line", () => undefined);
  return { child, firstLine };
}

/** Kills a child with SIGKILL and waits until it has exited. */
export async function killHard(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

/** Checks whether a process with that ID runs. A zombie does not count. */
export function isRunning(pid: number): boolean {
  return processBirth(pid) !== undefined;
}

/**
 * Resolves as soon as `condition` returns true. Rejects with `what` if that does not happen within `ms`
 * milliseconds.
 */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 20_000,
): Promise<void> {
  const giveUp = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > giveUp) {
      throw new Error(`not within ${ms} ms: ${what}`);
    }
    await sleep(20);
  }
}
