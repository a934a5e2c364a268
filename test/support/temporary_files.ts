import { readFileSync, statfsSync } from "node:fs";

const FOLDER = "/dev/shm";
/** Required space: several times a new clone with its packages (0.6 GB) and a test run's databases. */
const ENOUGH_BYTES = 6 * 2 ** 30;

/**
 * Keeps the test run's temporary files in memory if TMPDIR is not set and the machine allows it. On a disk,
 * creating and dropping databases takes longer than the tests: for each new file, ext4 scans every file that
 * was removed in the last minutes.
 */
export function useMemoryForFiles(): void {
  if (process.env.TMPDIR === undefined && isRoomy()) process.env.TMPDIR = FOLDER;
}

/** Requires a tmpfs from which programs may run, with enough space, and enough free memory. */
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
