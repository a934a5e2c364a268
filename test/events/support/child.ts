import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { WorkerTiming } from "../../../src/worker.ts";

/** A worker process that a test may stop in any way. */
export type WorkerProcess = {
  readonly pid: number;
  kill(signal: NodeJS.Signals): Promise<void>;
  signal(signal: NodeJS.Signals): void;
};

const SCRIPT = fileURLToPath(new URL("worker_process.ts", import.meta.url));

/** Starts a worker process and waits until it runs. */
export async function spawnWorker(url: string, timing: WorkerTiming): Promise<WorkerProcess> {
  const child = spawn(process.execPath, [SCRIPT], {
    env: { ...process.env, DATABASE_URL: url, TIMING: JSON.stringify(timing) },
    stdio: ["pipe", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  child.stdout.resume();
  return {
    pid: child.pid!,
    signal: (signal) => void child.kill(signal),
    async kill(signal) {
      const exited = hasExited(child) ? undefined : once(child, "exit");
      child.kill(signal);
      await exited;
    },
  };
}

const hasExited = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;
