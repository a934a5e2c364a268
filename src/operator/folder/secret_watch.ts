import type { Logger } from "../../log.ts";
import { listStamps } from "./manifests/listing.ts";
import { watchFolders } from "./watch.ts";

/** Tells of Secrets that were made, changed or removed, by whomever. */
export type SecretWatch = {
  start(): Promise<void>;
  /** Takes note of a Secret that was just written, so that its removal right after is noticed. */
  note(namespace: string, name: string): void;
  stop(): Promise<void>;
};

type Options = {
  folder: string;
  log: Logger;
  tell(namespace: string, name: string): void;
  /** How often to compare without a hint. */
  rescanMs: number;
};

const FILE = /^([^/]+)\/([^/]+)\.yaml$/;

/** Compares `<namespace>/<name>.yaml` with what was there before, at every hint and from time to time. */
export function createSecretWatch({ folder, log, tell, rescanMs }: Options): SecretWatch {
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
      if (namespace !== undefined && name !== undefined) tell(namespace, name);
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
