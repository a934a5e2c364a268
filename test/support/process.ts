import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";

export type RunningScript = {
  child: ChildProcess;
  firstLine: string;
};

/** Runs a TypeScript file and waits for its first line of output. */
export async function runScript(path: string, args: string[]): Promise<RunningScript> {
  const child = spawn(process.execPath, [path, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [firstLine] = (await Promise.race([once(lines, "line"), once(child, "exit").then(() => [""])])) as [
    string,
  ];
  lines.on("line", () => undefined);
  return { child, firstLine };
}

export async function killHard(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

/** Returns whether a process runs. A zombie does not count. */
export function isRunning(pid: number): boolean {
  return processBirth(pid) !== undefined;
}

/** Resolves when `condition` returns true, or rejects with `what`, or its result, after `ms` milliseconds. */
export async function until(
  what: string | (() => string),
  condition: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const giveUp = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > giveUp) {
      throw new Error(`not within ${ms} ms: ${typeof what === "string" ? what : what()}`);
    }
    await sleep(20);
  }
}
