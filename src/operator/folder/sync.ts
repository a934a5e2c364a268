import type { Clock } from "../../clock.ts";
import type { Logger } from "../../log.ts";
import { type Key, keyText } from "../kinds.ts";
import type { Schemas } from "../schema/schemas.ts";
import { applyPlan } from "./changes.ts";
import { fingerprintOf, readManifests } from "./listing.ts";
import { planChanges } from "./plan.ts";
import type { ErrorFile } from "./reports.ts";
import type { Store } from "./store.ts";
import { watchFolders } from "./watch.ts";

/** Updates the store repeatedly from the manifests. */
export type ManifestSync = {
  /** Syncs until no file is being written and it is certain which missing objects were deleted. */
  first(): Promise<void>;
  /** Syncs again as soon as the current sync has ended. */
  soon(): void;
  stop(): Promise<void>;
};

type Options = {
  folder: string;
  schemas: Schemas;
  store: Store;
  errors: ErrorFile;
  clock: Clock;
  log: Logger;
  /** How long a file must be unchanged before it is read. */
  quietMs: number;
  /** How long an object must be missing before it counts as deleted. An editor may be replacing its file. */
  missingMs: number;
  /** How often to look for changes that no hint announced. */
  rescanMs: number;
};

/** `againMs` is the time until the next sync; if absent, only a change triggers it. */
type NextSync = { againMs?: number };

/** Creates the sync of a folder. The caller must start it with `first`. Times are in milliseconds. */
export function createManifestSync(options: Options): ManifestSync {
  const { folder, store, schemas, errors, clock, log, quietMs, missingMs, rescanMs } = options;
  const missingSince = new Map<string, number>();
  let lastFingerprint: string | undefined;
  let running: Promise<NextSync> | undefined;
  let wanted = false;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const watch = watchFolders(folder, { log, onHint: soon });

  async function syncOnce(): Promise<NextSync> {
    await watch.refresh();
    const reading = await readManifests(folder, quietMs);
    if (reading.fault !== undefined) {
      lastFingerprint = undefined;
      await errors.show([{ file: ".", faults: [reading.fault] }]);
      return { againMs: missingMs };
    }
    const plan = planChanges({
      files: reading.files,
      known: store.known(),
      bindings: store.bindings(),
      schemas,
    });
    const [gone, uncertain] = confirmMissing(plan.removed);
    await applyPlan({ ...plan, removed: gone }, { store, clock });
    await errors.show(plan.errors);
    lastFingerprint = reading.fingerprint;
    if (reading.files.some((file) => file.beingWritten)) return { againMs: 0 };
    return uncertain.length > 0 ? { againMs: missingMs } : {};
  }

  function confirmMissing(removed: Key[]): [Key[], Key[]] {
    const now = performance.now();
    const ids = new Set(removed.map(keyText));
    for (const id of missingSince.keys()) if (!ids.has(id)) missingSince.delete(id);
    for (const id of ids) if (!missingSince.has(id)) missingSince.set(id, now);
    const isSure = (key: Key) => now - (missingSince.get(keyText(key)) ?? now) >= missingMs;
    return [removed.filter(isSure), removed.filter((key) => !isSure(key))];
  }

  function run(): Promise<NextSync> {
    if (running !== undefined) return running;
    wanted = false;
    clearTimeout(timer);
    running = syncOnce()
      .catch((error: unknown): NextSync => {
        log.error({ err: error, folder }, "the manifests could not be applied");
        return { againMs: missingMs };
      })
      .then((outcome) => {
        running = undefined;
        if (!stopped) next(outcome);
        return outcome;
      });
    return running;
  }

  function next({ againMs }: NextSync): void {
    if (wanted) {
      void run();
    } else {
      timer = setTimeout(againMs === undefined ? rescan : run, againMs ?? rescanMs);
    }
  }

  async function rescan(): Promise<void> {
    await watch.refresh();
    const fingerprint = await fingerprintOf(folder);
    if (stopped || running !== undefined) return;
    if (fingerprint === undefined || fingerprint !== lastFingerprint) {
      await run();
    } else {
      next({});
    }
  }

  function soon(): void {
    if (stopped) return;
    wanted = true;
    if (running === undefined) void run();
  }

  return {
    soon,
    async first() {
      let outcome = await run();
      while (outcome.againMs !== undefined && lastFingerprint !== undefined && !stopped) {
        await new Promise((resolve) => setTimeout(resolve, outcome.againMs));
        outcome = await run();
      }
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      watch.close();
      await running;
    },
  };
}
