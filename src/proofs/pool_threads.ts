import { readdir, readFile } from "node:fs/promises";
import { availableParallelism, getPriority, setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** Name of the runtime's thread pool threads, which check signatures. */
const POOL_THREAD = "libuv-worker";
/** Added to the main thread's niceness, so that the pool gets a tenth of the time if both compete. */
const NICER_BY = 10;
const NICEST = 19;

/**
 * Lowers the priority of this process's thread pool below its main thread. Otherwise a pool thread that
 * checks a signature displaces the main thread. Changes nothing on one core, outside Linux, or without
 * permission.
 */
export async function lowerPoolPriority(): Promise<void> {
  if (availableParallelism() < 2) return;
  const niceness = Math.min(NICEST, getPriority() + NICER_BY);
  // Reading the folder uses the thread pool. The first use starts all threads of the pool.
  const ids = await readdir(THREADS).catch(() => []);
  await Promise.all(ids.map((id) => lowerPriority(id, niceness)));
}

async function lowerPriority(id: string, niceness: number): Promise<void> {
  try {
    const name = await readFile(`${THREADS}/${id}/comm`, "utf8");
    if (name.trim() === POOL_THREAD) setPriority(Number(id), niceness);
  } catch {
    // The thread has exited, or its priority cannot be changed.
  }
}
