import { readFileSync, statfsSync } from "node:fs";

const FOLDER = "/dev/shm";
/**
 * Required space: several times the size of a new clone with its packages (0.6 GB) and of a test run's
 * databases.
 */
const ENOUGH_BYTES = 6 * 2 ** 30;

/**
 * Keeps the test run's temporary files in memory if the machine allows it. On a disk, creating and dropping
 * databases takes longer than the tests. Whenever ext4 creates a file, it scans every file that was removed
 * in the last minutes. If TMPDIR is already set, it stays unchanged.
 */
export function useMemoryForFiles(): void {
  if (process.env.TMPDIR === undefined && isRoomy()) process.env.TMPDIR = FOLDER;
}

/**
 * Checks that memory can hold the files. This needs a tmpfs from which programs may run, with enough space,
 * and enough free memory.
 */
function isRoomy(): boolean {
  try {
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const options = mounts.map((line) => line.split(" ")).findLast(([, path]) => path === FOLDER);
    const { bavail, bsize } = statfsSync(FOLDER);
    const room = Math.min(bavail * bsize, process.availableMemory());
    return options?.[2] === "tmpfs" && !options[3]?.split(",").includes("noexec") && room >= ENOUGH_BYTES;
  } catch {
    return false;
  }
}
