import { fork } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("worker_process.ts", import.meta.url));
const MIB = 1024 * 1024;

/** A worker in a separate process. Sizes are in MiB. `heap` is the heap in use after a collection. */
export type BenchWorker = { memory(): Promise<{ heap: number; resident: number }>; stop(): Promise<void> };

/** Starts a worker on the database at `url`. */
export function startBenchWorker(url: string): BenchWorker {
  const child = fork(SCRIPT, { execArgv: ["--expose-gc"], env: { ...process.env, DATABASE_URL: url } });
  return {
    async memory() {
      child.send("heap");
      const [heap] = await once(child, "message");
      const status = await readFile(`/proc/${child.pid}/status`, "utf8");
      return { heap: heap / MIB, resident: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024 };
    },
    async stop() {
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      await exit;
    },
  };
}
