import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** The folder with the example to copy, and the folders that the reader shares with the operator. */
export type ManifestFolders = { examples: string; manifests: string; status: string; credentials: string };

/** The manifests folder before the start. `restored`: it was missing although the operator has used it. */
export type ManifestsFound = "new" | "kept" | "restored";

/**
 * Creates missing folders. The operator treats an empty manifests folder as a request to delete everything,
 * so a folder that has disappeared is restored with the complete example or not at all.
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
