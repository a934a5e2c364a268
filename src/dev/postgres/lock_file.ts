import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/** What `postmaster.pid` says about the server that wrote it. */
type LockFile = {
  pid: number;
  shmId: string | undefined;
  /** "starting", "ready", "stopping" or "standby". */
  status: string;
};

/** The lock file of a data folder, or undefined when no server holds it. */
export async function readLockFile(dataDir: string): Promise<LockFile | undefined> {
  const lines = (await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) {
    return undefined;
  }
  return { pid, shmId: lines[6]?.trim().split(/\s+/)[1], status: lines[7]?.trim() ?? "" };
}

/**
 * Removes a lock file whose server is dead although its process id exists: as a zombie that nobody collects,
 * or given to another process. Postgres cannot tell and would refuse to start for ever. A server's working
 * directory is always its data folder, which distinguishes them; a backend that outlived its server still
 * holds the shared memory segment, and then nothing is removed. Only on Linux; true when it was removed.
 */
export async function removeStaleLockFile(dataDir: string): Promise<boolean> {
  const lock = await readLockFile(dataDir);
  if (process.platform !== "linux" || lock === undefined) {
    return false;
  }
  const [folder, cwd] = await Promise.all([
    stat(dataDir),
    stat(`/proc/${lock.pid}/cwd`).catch((error: NodeJS.ErrnoException) => error.code),
  ]);
  const gone = typeof cwd === "object" ? cwd.ino !== folder.ino || cwd.dev !== folder.dev : cwd === "ENOENT";
  if (!gone || lock.shmId === undefined || (await isAttached(lock.shmId))) {
    return false;
  }
  await rm(join(dataDir, "postmaster.pid"), { force: true });
  return true;
}

async function isAttached(shmId: string): Promise<boolean> {
  const table = await readFile("/proc/sysvipc/shm", "utf8");
  const row = table.split("\n").find((line) => line.trim().split(/\s+/)[1] === shmId);
  return row !== undefined && Number(row.trim().split(/\s+/)[6]) > 0;
}
