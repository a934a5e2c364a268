import { type FSWatcher, watch } from "chokidar";
import type { Logger } from "../../log.ts";

/** Calls for a look whenever something below the folders may have changed. */
export type Watch = { close(): Promise<void> };

/**
 * Watches folders, also such as do not exist yet. What is watched may be lost (network file systems, exhausted
 * watches): who needs to be sure looks by itself from time to time as well.
 */
export function watchFolder(
  folder: string,
  { log, onChange }: { log: Logger; onChange(path: string): void },
): Watch {
  const watcher: FSWatcher = watch(folder, { ignoreInitial: true, ignorePermissionErrors: true, depth: 16 });
  watcher.on("all", (_, path) => onChange(path));
  watcher.on("error", (error) => log.warn({ err: error, folder }, "changes may be noticed late"));
  return { close: () => watcher.close() };
}
