import { readFileSync, statfsSync } from "node:fs";

const FOLDER = "/dev/shm";
/** Several times what a fresh clone with its packages takes, 0.6 GB, and the databases of a run beside it. */
const ENOUGH_BYTES = 6 * 2 ** 30;

/**
 * Has the run's temporary files kept in memory where the machine allows it. On a disk's file system the
 * thousands of files that each new database makes and drops cost more than the tests themselves: ext4 walks
 * over every file that was removed in the last minutes to make one. A TMPDIR that is set stays.
 */
export function useMemoryForFiles(): void {
  if (process.env.TMPDIR === undefined && isRoomy()) process.env.TMPDIR = FOLDER;
}

/**
 * Whether files can be kept in memory: a tmpfs whose programs may run, with room in it and in the machine.
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
