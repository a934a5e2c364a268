import { mkdir, mkdtemp, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/**
 * Writes a file completely or not at all, and waits until it is on disk. Only its owner can read it unless
 * `mode` allows more. Removes an existing file at the temporary path and never writes to that file, because
 * in a shared folder it may belong to another user. Rejects with the file system's error, whose `path` names
 * the file.
 */
export async function writeFileDurably(path: string, content: string, mode = 0o600): Promise<void> {
  const unfinished = `${path}.unfinished`;
  try {
    await writeThrough(unfinished, content, mode);
    await rename(unfinished, path);
    await syncPath(dirname(path));
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => {});
    throw Object.assign(error as NodeJS.ErrnoException, { path });
  }
}

async function writeThrough(path: string, content: string, mode: number): Promise<void> {
  await rm(path, { force: true });
  const file = await open(path, "wx", mode);
  try {
    await file.chmod(mode);
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Creates a folder completely or not at all. `fill` receives a temporary folder, readable by the owner only.
 * That folder is moved to `path` when its content is on disk. First removes leftovers of earlier runs, even
 * if another process still writes to them. `fill` must therefore not create its folder again. Rejects if
 * `fill` rejects or if `path` is a non-empty folder by then, and then leaves nothing behind.
 */
export async function makeFolderDurably<T>(path: string, fill: (aside: string) => Promise<T>): Promise<T> {
  const folder = dirname(path);
  await makePrivateFolder(folder);
  for (const name of await readdir(folder)) {
    if (name.startsWith(`${basename(path)}.unfinished`)) await removeAtOnce(join(folder, name), path);
  }
  const aside = await mkdtemp(`${path}.unfinished-`);
  try {
    const filled = await fill(aside);
    await syncFolder(aside);
    await rename(aside, path);
    await syncPath(folder);
    return filled;
  } catch (error) {
    await rm(aside, { recursive: true, force: true }).catch(() => {});
    throw error;
  }
}

/**
 * Removes a folder. Moves it away first, so that a process that still writes to it never finds only half of
 * it.
 */
async function removeAtOnce(leftover: string, path: string): Promise<void> {
  const away = await mkdtemp(`${path}.unfinished-`);
  await rename(leftover, away).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await rm(away, { recursive: true, force: true });
}

/** Waits until a folder and all its contents are on disk. */
export async function syncFolder(path: string): Promise<void> {
  for (const entry of await readdir(path, { recursive: true })) await syncPath(join(path, entry));
  await syncPath(path);
}

/** Creates a folder and its missing parents, accessible to the owner only. */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}

/** Waits until a file is on disk. For a folder, waits for its list of names. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
