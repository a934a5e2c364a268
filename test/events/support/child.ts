import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { DatabaseUrls } from "../../../src/input/database_url.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import type { WorkerTiming } from "../../../src/worker.ts";

/** A worker process that a test may stop in any way. */
export type WorkerProcess = {
  readonly pid: number;
  /** The signal that ended the process, or null while it runs. */
  endedBy(): NodeJS.Signals | null;
  kill(signal: NodeJS.Signals): Promise<void>;
  signal(signal: NodeJS.Signals): void;
};

const DIE_AT = new URL("../../soak/die_at.ts", import.meta.url).href;
const SCRIPT = fileURLToPath(new URL("worker_process.ts", import.meta.url));

/** Optional settings of a worker. `dieAt` is the step at which it kills itself. */
export type WorkerOptions = { kafka?: KafkaSettings; dieAt?: string };

/** Starts a worker process and waits until it runs. */
export async function spawnWorker(
  urls: DatabaseUrls,
  timing: WorkerTiming,
  { kafka, dieAt }: WorkerOptions = {},
): Promise<WorkerProcess> {
  const child = spawn(process.execPath, ["--import", DIE_AT, SCRIPT], {
    env: {
      ...process.env,
      ...urls,
      TIMING: JSON.stringify(timing),
      ...(kafka && { KAFKA: JSON.stringify(kafka) }),
      ...(dieAt !== undefined && { DIE_AT: dieAt }),
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  child.stdout.resume();
  return {
    pid: child.pid!,
    endedBy: () => child.signalCode,
    signal: (signal) => void child.kill(signal),
    async kill(signal) {
      const exited = hasExited(child) ? undefined : once(child, "exit");
      child.kill(signal);
      await exited;
    },
  };
}

const hasExited = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;
