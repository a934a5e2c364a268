import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";

/** A script run by this Node whose first line of output has been read. */
export type RunningScript = {
  child: ChildProcess;
  firstLine: string;
};

/** Runs a TypeScript file and waits for its first line; its errors go to this process's. */
export async function runScript(path: string, args: string[]): Promise<RunningScript> {
  const child = spawn(process.execPath, [path, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [firstLine] = (await Promise.race([once(lines, "line"), once(child, "exit").then(() => [""])])) as [
    string,
  ];
  lines.on("line", () => undefined);
  return { child, firstLine };
}

/** Kills a child the hard way and waits until it is gone. */
export async function killHard(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

/** True while a process of that id runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  return processBirth(pid) !== undefined;
}

/** Resolves as soon as `condition` holds; rejects, naming it, when it does not within `ms`. */
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
