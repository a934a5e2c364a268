import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartError } from "../../config.ts";

/** A folder, its permissions if it must be created, and the name of its setting. */
type Folder = { path: string; mode: number; setting: string };

/** The name of the lock file in each folder. It stays empty. */
export const LOCK_FILE = ".operator.lock";
/** SQLite's result codes for a database that another process has locked, and for a file of another kind. */
const [BUSY, NO_DATABASE] = [5, 26];

/**
 * Locks folders for this process, and creates missing ones. Returns a function that releases them. The
 * operating system releases the locks of a process that ends in any way. Throws `StartError` if another
 * operator has locked one of the folders.
 *
 * The lock is that of an empty SQLite database, which SQLite takes with `fcntl`, because Node cannot lock
 * files. Other containers and, on most shared file systems, other machines also respect such a lock.
 */
export async function lockFolders(folders: readonly Folder[]): Promise<() => void> {
  const locks = new Map<string, DatabaseSync>();
  const release = (): void => {
    for (const lock of locks.values()) lock.close();
    locks.clear();
  };
  try {
    for (const folder of folders) {
      const path = await makeFolder(folder);
      // Two settings may name the same folder.
      if (!locks.has(path)) locks.set(path, lockFile(join(path, LOCK_FILE), folder));
    }
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

async function makeFolder({ path, mode, setting }: Folder): Promise<string> {
  try {
    await mkdir(path, { recursive: true, mode });
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(`${setting}: ${path} cannot be created or used (${code}). Choose another folder`, {
      cause: error,
    });
  }
}

function lockFile(file: string, { path, setting }: Folder): DatabaseSync {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(file);
    // The transaction is never committed, and a journal in memory leaves no file behind.
    lock.exec("pragma journal_mode = memory; begin exclusive");
    return lock;
  } catch (error) {
    lock?.close();
    throw new StartError(`${setting}: ${reasonOf(error, path, file)}`, { cause: error });
  }
}

function reasonOf(error: unknown, folder: string, file: string): string {
  const { errcode, message } = error as Error & { errcode?: number };
  if (errcode === BUSY) return `another operator uses ${folder}. Stop it, or choose another folder`;
  if (errcode === NO_DATABASE) return `${file} is not a lock file. Remove it`;
  return `${folder} cannot be locked (${message}). Choose a folder that this user may write, on a file system with locks`;
}
