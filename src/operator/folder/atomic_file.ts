import { randomBytes } from "node:crypto";
import { link, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Permissions of the file and of new folders, and whether an existing file may be replaced. */
type Options = { mode: number; folderMode: number; replace: boolean };

/** Name pattern of files that a crash may have left half-written. Nothing reads them. */
export const UNFINISHED = /^\..*\.unfinished$/;

/**
 * Writes a whole file or nothing, durably, and creates missing folders. Returns `false`, and changes nothing,
 * if the file exists and must not be replaced.
 */
export async function writeAtomically(path: string, text: string, options: Options): Promise<boolean> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: options.folderMode });
  const unfinished = join(folder, `.${basename(path)}.${randomBytes(6).toString("hex")}.unfinished`);
  try {
    await writeDurably(unfinished, text, options.mode);
    if (options.replace) {
      await rename(unfinished, path);
    } else if (!(await linked(unfinished, path))) return false;
    await syncFolder(folder);
    return true;
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** Removes a file durably. A missing file is not an error. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncFolder(dirname(path)).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}

/** Returns whether an error means that a file or folder does not exist. */
export function isMissing(error: unknown): boolean {
  return (error as { code?: unknown }).code === "ENOENT";
}

async function writeDurably(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    await file.writeFile(text, "utf8");
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Creates a link from `to` to the file `from`. Returns `false` if `to` already exists. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "EEXIST") return false;
    throw error;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
