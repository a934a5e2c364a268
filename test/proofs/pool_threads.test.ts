import { execFile } from "node:child_process";
import { getPriority } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { nicenessOfThreads } from "../support/threads.ts";

const MODULE = fileURLToPath(new URL("../../src/proofs/pool_threads.ts", import.meta.url));
const THREADS = fileURLToPath(new URL("../support/threads.ts", import.meta.url));

/** Returns the niceness of each thread. The pool's threads start when the pool is first used. */
async function nicenessBy(...command: string[]) {
  const script = `
    const { lowerPoolPriority } = await import(${JSON.stringify(MODULE)});
    const { nicenessOfThreads } = await import(${JSON.stringify(THREADS)});
    await lowerPoolPriority();
    await (await import("node:fs/promises")).stat("/");
    console.log(JSON.stringify(nicenessOfThreads(process.pid)));`;
  const [file = "", ...args] = [...command, process.execPath, "--input-type=module", "--eval", script];
  const env = { ...process.env, UV_THREADPOOL_SIZE: "3" };
  const { stdout } = await promisify(execFile)(file, args, { env });
  const threads = JSON.parse(stdout) as ReturnType<typeof nicenessOfThreads>;
  const of = (isPool: boolean) =>
    threads.filter(({ name }) => (name === "libuv-worker") === isPool).map(({ niceness }) => niceness);
  return { pool: of(true), others: new Set(of(false)) };
}

test("lowerPoolPriority lowers only the priority of the pool threads, below the priority of the main thread", async () => {
  const own = getPriority();
  const nicer = Math.min(19, own + 10);
  expect(await nicenessBy()).toEqual({ pool: [nicer, nicer, nicer], others: new Set([own]) });
});

test("lowerPoolPriority stops at the system's minimum if the process already has a low priority", async () => {
  expect(await nicenessBy("nice", "-n", "15")).toMatchObject({ pool: [19, 19, 19] });
});

test("lowerPoolPriority leaves the priority unchanged if pool and main thread share a single core", async () => {
  const own = getPriority();
  expect(await nicenessBy("taskset", "-c", "0")).toEqual({ pool: [own, own, own], others: new Set([own]) });
});
