import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** The folders between a reader and the operator, and the example that they begin with. */
export type ManifestFolders = { examples: string; manifests: string; status: string; credentials: string };

/**
 * What was found: nothing yet, all of it, or no manifests although the operator has worked here, which are
 * restored.
 */
export type ManifestsFound = "new" | "kept" | "restored";

/**
 * Makes the folders that are not there. To the operator an empty manifests folder means that everything is to
 * be deleted, so one that has gone since an earlier start is made again with the whole example in it, or not
 * at all.
 */
export async function openManifests(folders: ManifestFolders): Promise<ManifestsFound> {
  const { examples, manifests, status, credentials } = folders;
  const isNew = !existsSync(status);
  const isMissing = !existsSync(manifests);
  if (isMissing && !isNew) await placeAll(examples, manifests);
  for (const folder of [manifests, credentials, status]) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
  if (isNew) return "new";
  return isMissing ? "restored" : "kept";
}

async function placeAll(examples: string, manifests: string): Promise<void> {
  const partial = `${manifests}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true, mode: 0o700 });
  for (const file of await readdir(examples)) await copyFile(join(examples, file), join(partial, file));
  await rename(partial, manifests);
}
