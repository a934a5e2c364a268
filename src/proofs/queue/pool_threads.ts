import { readdir, readFile } from "node:fs/promises";
import { setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** What the runtime names the threads of its pool, which check signatures. */
const POOL_THREAD = "libuv-worker";
/** Of nineteen; a tenth of the processor's time where others want it too. */
const NICENESS = 10;

/**
 * Has this process's thread pool give way to its main thread. That wakes a thread of the pool twice for each
 * decision, and would be set aside by it until the signature is checked, while another core may be free. On
 * Linux; elsewhere, and where the system does not allow it, nothing changes.
 */
export async function havePoolGiveWay(): Promise<void> {
  try {
    // Reading the folder is work for the pool, which begins with all of its threads.
    for (const id of await readdir(THREADS)) {
      const name = await readFile(`${THREADS}/${id}/comm`, "utf8");
      if (name.trim() === POOL_THREAD) setPriority(Number(id), NICENESS);
    }
  } catch {
    // As fast as before.
  }
}
