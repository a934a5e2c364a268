import { readdir, readFile } from "node:fs/promises";
import { availableParallelism, getPriority, setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** Name that the runtime gives the threads of its pool, which check signatures. */
const POOL_THREAD = "libuv-worker";
/**
 * Added to the main thread's niceness. The pool then gets a tenth of the processor's time if both want it.
 */
const NICER_BY = 10;
const NICEST = 19;

/**
 * Lowers the priority of this process's thread pool below its main thread. The main thread wakes a thread of
 * the pool twice for each decision. At equal priority, that thread would displace the main thread until the
 * signature is checked, although another core may be free. Works on Linux with more than one core. Changes
 * nothing elsewhere, or where the system does not allow it.
 */
export async function lowerPoolPriority(): Promise<void> {
  if (availableParallelism() < 2) return;
  const niceness = Math.min(NICEST, getPriority() + NICER_BY);
  // Reading the folder uses the pool, which starts all of its threads the first time it is used.
  const ids = await readdir(THREADS).catch(() => []);
  await Promise.all(ids.map((id) => lowerPriority(id, niceness)));
}

async function lowerPriority(id: string, niceness: number): Promise<void> {
  try {
    const name = await readFile(`${THREADS}/${id}/comm`, "utf8");
    if (name.trim() === POOL_THREAD) setPriority(Number(id), niceness);
  } catch {
    // The thread has ended, or its priority cannot be changed.
  }
}
