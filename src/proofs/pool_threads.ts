import { readdir, readFile } from "node:fs/promises";
import { availableParallelism, getPriority, setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** What the runtime names the threads of its pool, which check signatures. */
const POOL_THREAD = "libuv-worker";
/** Above the main thread's; a tenth of the processor's time where both want it. */
const NICER_BY = 10;
const NICEST = 19;

/**
 * Has this process's thread pool give way to its main thread. That wakes a thread of the pool twice for each
 * decision, and would be set aside by it until the signature is checked, while another core may be free. On
 * Linux, with more than one core; elsewhere, and where the system does not allow it, nothing changes.
 */
export async function havePoolGiveWay(): Promise<void> {
  if (availableParallelism() < 2) return;
  const niceness = Math.min(NICEST, getPriority() + NICER_BY);
  // Reading the folder is work for the pool, which begins with all of its threads.
  const ids = await readdir(THREADS).catch(() => []);
  await Promise.all(ids.map((id) => giveWay(id, niceness)));
}

async function giveWay(id: string, niceness: number): Promise<void> {
  try {
    const name = await readFile(`${THREADS}/${id}/comm`, "utf8");
    if (name.trim() === POOL_THREAD) setPriority(Number(id), niceness);
  } catch {
    // The thread has ended, or keeps its place.
  }
}
