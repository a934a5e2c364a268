import { type FSWatcher, watch } from "node:fs";
import type { Logger } from "../../log.ts";
import { listFolders } from "./manifests/listing.ts";

/**
 * Hints that something below a folder may have changed. A hint may be lost; who must be sure looks by itself
 * too.
 */
export type Watch = {
  /** Watches folders that have appeared since, and no longer those that are gone. */
  refresh(): Promise<void>;
  close(): void;
};

/**
 * Watches a folder and those below it, each as a whole, so that a file replaced under its name is noticed as
 * well. A folder that does not exist yet is watched from the `refresh` that finds it.
 */
export function watchFolders(root: string, { log, onHint }: { log: Logger; onHint(): void }): Watch {
  const watchers = new Map<string, FSWatcher>();
  let closed = false;

  function begin(id: string, path: string): void {
    try {
      const watcher = watch(path, onHint);
      watcher.on("error", () => end(id));
      watchers.set(id, watcher);
      onHint();
    } catch (error) {
      log.warn({ err: error, folder: path }, "changes in this folder may be noticed late");
    }
  }

  function end(id: string): void {
    watchers.get(id)?.close();
    watchers.delete(id);
  }

  return {
    async refresh() {
      const folders = await listFolders(root);
      if (closed) return;
      for (const [id, path] of folders) if (!watchers.has(id)) begin(id, path);
      for (const id of [...watchers.keys()]) if (!folders.has(id)) end(id);
    },
    close() {
      closed = true;
      for (const id of [...watchers.keys()]) end(id);
    },
  };
}
