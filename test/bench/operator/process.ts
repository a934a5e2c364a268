import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../../src/dev/process/ports.ts";

export type BenchOperator = {
  pid: number;
  /** Returns the sum of those series of a metric whose labels contain `labels`. */
  metric(name: string, labels?: string): Promise<number>;
  /** The process's current memory in MiB. */
  memory(): Promise<number>;
  stop(): Promise<void>;
};

const PROGRAM = join(import.meta.dirname, "../../../src/main.ts");
const PATIENCE_MS = 60_000;

/** Starts `deputize operator` with these settings. Resolves when its health port responds. */
export async function startBenchOperator(
  settings: Record<string, string>,
  log: string,
): Promise<BenchOperator> {
  const port = await freePort();
  const child = spawn(process.execPath, [PROGRAM, "operator"], {
    env: {
      PATH: process.env.PATH,
      NODE_OPTIONS: process.env.OPERATOR_NODE_OPTIONS ?? "",
      ...settings,
      HEALTH_PORT: String(port),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const file = createWriteStream(log, { flags: "a" });
  child.stdout.pipe(file);
  child.stderr.pipe(file);
  const url = `http://127.0.0.1:${port}`;
  const end = performance.now() + PATIENCE_MS;
  while (
    !(await fetch(`${url}/livez`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (performance.now() > end || child.exitCode !== null) {
      throw new Error(`the operator did not start: ${log}`);
    }
    await sleep(50);
  }
  const { pid = 0 } = child;
  return {
    pid,
    async metric(name, labels = "") {
      const text = await (await fetch(`${url}/metrics`)).text();
      const values = text
        .split("\n")
        .filter(
          (line) => line.startsWith(name) && /^[{ ]/.test(line.slice(name.length)) && line.includes(labels),
        )
        .map((line) => Number(line.split(" ").at(-1)));
      return values.reduce((sum, value) => sum + value, 0);
    },
    async memory() {
      const status = await readFile(`/proc/${pid}/status`, "utf8");
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
    },
    async stop() {
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      await exit;
    },
  };
}
