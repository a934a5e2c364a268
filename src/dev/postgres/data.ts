import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chown,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { spawnTied } from "../process/lifeline.mjs";
import { UserError } from "../user_error.ts";
import { POSTGRES_ENV, type PostgresBinaries, type ServerUser } from "./binaries.ts";

type PostgresData = {
  password: string;
};

const ANOTHER = "Remove the cause, or choose another folder with --data";

/**
 * Returns the path that the server uses for its data folder. If this process is root, this is the server's
 * working directory, since the server's user may be unable to reach the folder by its path.
 */
export function dataPath(dataDir: string, user: ServerUser): string {
  return user === undefined ? dataDir : "/proc/self/cwd";
}

/**
 * Opens `dataDir`, or creates it completely or not at all. The password is in `<dataDir>.password`, mode
 * 0600. If `signal` aborts, rejects with its reason after initdb has cleaned up. Throws `UserError` if the
 * folder is damaged, or belongs to another version or another user.
 */
export async function openData(
  dataDir: string,
  binaries: PostgresBinaries,
  user: ServerUser,
  signal?: AbortSignal,
): Promise<PostgresData> {
  const names = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return undefined;
    }
    throw new UserError(`${dataDir} cannot be read: ${error.message}`, ANOTHER, { cause: error });
  });
  if (names === undefined || names.length === 0) {
    return createData(dataDir, binaries, user, signal);
  }
  const startAfresh = `Put back a copy of it, or start afresh, which loses its data: rm -r ${dataDir}`;
  const version = await readFile(join(dataDir, "PG_VERSION"), "utf8").catch(() => "");
  const control = await stat(join(dataDir, "global", "pg_control")).catch(() => undefined);
  const major = /^\d+$/.exec(version.trim())?.[0];
  if (major === undefined || control === undefined) {
    throw new UserError(`${dataDir} is not a complete Postgres data folder`, startAfresh);
  }
  if (major !== binaries.major) {
    throw new UserError(
      `${dataDir} was written by Postgres ${major}, this is Postgres ${binaries.major}`,
      startAfresh,
    );
  }
  await checkOwner(dataDir, user);
  const password = await readFile(`${dataDir}.password`, "utf8").catch(() => "");
  if (password.trim() === "") {
    throw new UserError(`${dataDir} exists, but its password file ${dataDir}.password does not`, startAfresh);
  }
  return { password: password.trim() };
}

async function checkOwner(dataDir: string, user: ServerUser): Promise<void> {
  const { uid } = await stat(dataDir);
  const wanted = user?.uid ?? process.getuid?.();
  if (uid !== wanted) {
    throw new UserError(
      `${dataDir} belongs to user ${uid}, but Postgres would run as user ${wanted}`,
      `Start it as user ${uid}, or change the owner of the folder: chown -R ${wanted} ${dataDir}`,
    );
  }
}

async function createData(
  dataDir: string,
  binaries: PostgresBinaries,
  user: ServerUser,
  signal: AbortSignal | undefined,
): Promise<PostgresData> {
  const password = randomBytes(24).toString("base64url");
  await mkdir(dirname(dataDir), { recursive: true, mode: 0o700 });
  await removeAbandoned(dataDir);
  const partial = `${dataDir}.partial-${process.pid}`;
  await mkdir(partial, { mode: 0o700 });
  try {
    await writePassword(`${dataDir}.password`, password);
    if (user !== undefined) {
      await chown(partial, user.uid, user.gid);
    }
    await initdb(partial, password, binaries, user, signal);
    await rmdir(dataDir).catch(() => undefined);
    await rename(partial, dataDir);
    await syncFolder(dirname(dataDir));
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return { password };
}

/** Removes unfinished folders whose initdb process no longer runs. */
async function removeAbandoned(dataDir: string): Promise<void> {
  const prefix = `${basename(dataDir)}.partial-`;
  for (const name of await readdir(dirname(dataDir))) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : Number.NaN;
    if (Number.isInteger(pid) && (pid === process.pid || !isAlive(pid))) {
      await rm(join(dirname(dataDir), name), { recursive: true, force: true });
    }
  }
}

async function writePassword(path: string, password: string): Promise<void> {
  const partial = `${path}.partial`;
  await rm(partial, { force: true });
  const file = await open(partial, "wx", 0o600);
  try {
    await file.writeFile(`${password}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
}

async function initdb(
  folder: string,
  password: string,
  binaries: PostgresBinaries,
  user: ServerUser,
  signal: AbortSignal | undefined,
): Promise<void> {
  const args = [
    `--pgdata=${dataPath(folder, user)}`,
    "--username=postgres",
    "--pwfile=/dev/stdin",
    "--auth=scram-sha-256",
    "--data-checksums",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
  ];
  const passwordFile = await unnamedFile(`${folder}.password`, password, user);
  try {
    const child = spawnTied(binaries.initdb, args, {
      ...user,
      cwd: folder,
      env: POSTGRES_ENV,
      stdio: [passwordFile.fd, "ignore", "pipe"],
      signal: "INT",
    });
    const closed = once(child, "close");
    const letGo = interruptOn(signal, child);
    const [complaint] = await Promise.all([child.stderr ? text(child.stderr) : "", closed]).finally(letGo);
    signal?.throwIfAborted();
    if (child.exitCode !== 0) {
      throw new UserError(`Postgres could not create ${folder}: ${reasonOf(complaint)}`, ANOTHER);
    }
  } finally {
    await passwordFile.close();
  }
}

/**
 * Interrupts initdb when the signal aborts, so that initdb removes its files. Repeats the interrupt, since
 * initdb misses one that arrives before its handler is installed. Returns a function that ends the
 * repetition.
 */
function interruptOn(signal: AbortSignal | undefined, child: ChildProcess): () => void {
  let timer: NodeJS.Timeout | undefined;
  function interrupt(): void {
    child.kill("SIGINT");
    timer = setInterval(() => child.kill("SIGINT"), 100);
  }
  if (signal?.aborted) interrupt();
  signal?.addEventListener("abort", interrupt, { once: true });
  return () => {
    clearInterval(timer);
    signal?.removeEventListener("abort", interrupt);
  };
}

/** Opens an unlinked file that only `user` can read, to pass a secret to a child on standard input. */
async function unnamedFile(path: string, content: string, user: ServerUser): Promise<FileHandle> {
  const file = await open(path, "wx+", 0o600);
  await rm(path);
  if (user !== undefined) {
    await file.chown(user.uid, user.gid);
  }
  await file.write(`${content}\n`, 0);
  return file;
}

/** Returns one line of a Postgres program's output: the first fatal error, or else the last line. */
export function reasonOf(complaint: string): string {
  const lines = complaint.trim().split("\n");
  const fatal = lines.map((line) => /\b(?:FATAL|PANIC|error): +(.*)/.exec(line)?.[1]).find(Boolean);
  const full = lines.find((line) => line.includes("No space left"));
  return fatal ?? full ?? (lines.at(-1) || "it ended without a message");
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync().finally(() => folder.close());
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

type LockFile = {
  pid: number;
  shmId: string | undefined;
  /** "starting", "ready", "stopping" or "standby". */
  status: string;
};

/** Reads `postmaster.pid`, which a running server writes. Returns undefined if no server uses the folder. */
export async function readLockFile(dataDir: string): Promise<LockFile | undefined> {
  const lines = (await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) {
    return undefined;
  }
  return { pid, shmId: lines[6]?.trim().split(/\s+/)[1], status: lines[7]?.trim() ?? "" };
}

/**
 * Removes the lock file of a dead server whose process ID exists, as a zombie or an unrelated process. With
 * that file, Postgres would never start. A living server is recognized by its working directory, which is its
 * data folder. The file also stays if a surviving backend is attached to the shared memory segment. Works
 * only on Linux. Returns true if it removed the file.
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
