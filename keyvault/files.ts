import { mkdir, mkdtemp, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/**
 * Writes a file whole or not at all, readable by its owner only unless `mode` says otherwise, and waits until
 * it is on disk. A file that is already at the temporary path, as after a crash, is removed and never written
 * to: in a folder that others write to it may be theirs. Rejects with the file system's error, which names
 * the file as its `path`; nothing is left then.
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
 * Makes a folder whole or not at all: `fill` gets a new one beside it, for the owner only, which is moved
 * into place when everything in it is on disk. What others left there is removed first, also under those who
 * still fill it: `fill` must not make its folder again. Rejects when `fill` does, or when there is a folder
 * with something in it by then; nothing is left then.
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
 * Removes a folder that others may still write to: whole, not file by file, so that they find it gone and
 * never half of what they wrote.
 */
async function removeAtOnce(leftover: string, path: string): Promise<void> {
  const away = await mkdtemp(`${path}.unfinished-`);
  await rename(leftover, away).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await rm(away, { recursive: true, force: true });
}

/** Waits until a folder and everything in it is on disk. */
export async function syncFolder(path: string): Promise<void> {
  for (const entry of await readdir(path, { recursive: true })) await syncPath(join(path, entry));
  await syncPath(path);
}

/** Makes a folder, and those above it, for the owner only. */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}

/** Waits until a file, or a folder's list of names, is on disk. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
