import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { makePrivateFolder, writeFileDurably } from "../files.ts";

const SOFTHSM_MODULES = [
  "/usr/lib/softhsm/libsofthsm2.so",
  "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
  "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
  "/usr/lib64/pkcs11/libsofthsm2.so",
  "/usr/lib64/softhsm/libsofthsm2.so",
  "/usr/local/lib/softhsm/libsofthsm2.so",
  "/opt/homebrew/lib/softhsm/libsofthsm2.so",
] as const;

/** Returns the path of SoftHSM on common Linux distributions, or `undefined`. */
export function findSoftHsm(): string | undefined {
  return SOFTHSM_MODULES.find((path) => existsSync(path));
}

/**
 * Prepares `dir` (mode 0700) as SoftHSM's folder, with its own configuration. Returns the environment
 * variables that point the module to it. Call it at every startup: the configuration contains the folder's
 * absolute path, and folders get moved and restored.
 */
export async function prepareSoftHsm(dir: string): Promise<Record<string, string>> {
  const objects = join(dir, "objects");
  const file = join(dir, "softhsm2.conf");
  const content = [
    `directories.tokendir = ${objects}`,
    "objectstore.backend = file",
    "log.level = ERROR",
    "slots.removable = false",
    "",
  ].join("\n");
  await makePrivateFolder(objects);
  if ((await readFile(file, "utf8").catch(() => "")) !== content) await writeFileDurably(file, content);
  return { SOFTHSM2_CONF: file };
}
