import { type FSWatcher, watch } from "node:fs";
import type { Logger } from "../../log.ts";
import { listFolders, listStamps } from "./listing.ts";

/** Sends hints that something below a folder may have changed. Hints may be lost, so also check regularly. */
type Watch = {
  /** Starts to watch new folders, and stops watching folders that no longer exist. */
  refresh(): Promise<void>;
  close(): void;
};

/**
 * Watches a folder and its subfolders. It watches folders rather than files, to notice a file that was
 * replaced under the same name. It watches a new folder only after the next `refresh`.
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

/** Reports Secrets that anyone created, changed or removed. */
type SecretWatch = {
  start(): Promise<void>;
  /** Records a Secret that was just written. Otherwise a removal right after the write would go unnoticed. */
  note(namespace: string, name: string): void;
  stop(): Promise<void>;
};

type Options = {
  folder: string;
  log: Logger;
  onChange(namespace: string, name: string): void;
  /** How often to compare the files without a hint, in milliseconds. */
  rescanMs: number;
};

const FILE = /^([^/]+)\/([^/]+)\.yaml$/;

/** Creates a watch that checks the files `<namespace>/<name>.yaml` at every hint and at regular intervals. */
export function createSecretWatch({ folder, log, onChange, rescanMs }: Options): SecretWatch {
  let stamps = new Map<string, string>();
  let running: Promise<void> | undefined;
  let wanted = false;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const watch = watchFolders(folder, { log, onHint: soon });

  async function compare(): Promise<void> {
    await watch.refresh();
    const found = (await listStamps(folder)) ?? new Map<string, string>();
    const paths = new Set([...stamps.keys(), ...found.keys()]);
    const changed = [...paths].filter((path) => stamps.get(path) !== found.get(path));
    stamps = found;
    for (const path of changed) {
      const [, namespace, name] = FILE.exec(path) ?? [];
      if (namespace !== undefined && name !== undefined) onChange(namespace, name);
    }
  }

  function run(): Promise<void> {
    wanted = false;
    clearTimeout(timer);
    running = compare().finally(() => {
      running = undefined;
      if (stopped) return;
      if (wanted) {
        void run();
      } else {
        timer = setTimeout(run, rescanMs);
      }
    });
    return running;
  }

  function soon(): void {
    if (stopped) return;
    wanted = true;
    if (running === undefined) void run();
  }

  return {
    start: run,
    note(namespace, name) {
      stamps.set(`${namespace}/${name}.yaml`, "just written");
      soon();
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      watch.close();
      await running;
    },
  };
}
