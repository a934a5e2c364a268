import { appendFile, mkdir, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { stringify } from "yaml";
import type { Clock } from "../../clock.ts";
import { type AnyObject, keyOf, keyText } from "../kinds.ts";
import type { ObjectEvent } from "../resources.ts";
import { removeDurably, writeAtomically } from "./atomic_file.ts";
import type { ManifestError } from "./plan.ts";

/** Writer of `errors.yaml`, which lists the current errors in manifests and exists only with errors. */
export type ErrorFile = { show(errors: readonly ManifestError[]): Promise<void> };

/** Opens the error file. The first call of `show` replaces or removes a file from an earlier run. */
export function openErrorFile(path: string): ErrorFile {
  let shown: string | undefined;
  return {
    async show(errors) {
      const entries = errors.map(({ object, ...error }) => ({
        ...error,
        ...(object && { object: keyText(object) }),
      }));
      const text = errors.length === 0 ? "" : stringify({ errors: entries }, { lineWidth: 0 });
      if (text === shown) return;
      if (text === "") {
        await removeDurably(path);
      } else {
        await writeAtomically(path, text, { mode: 0o644, folderMode: 0o755, replace: true });
      }
      shown = text;
    },
  };
}

/** Writer of events, one JSON object per line. */
export type EventFile = {
  record(object: AnyObject, event: ObjectEvent): void;
  /** Resolves when all events recorded so far have been written. */
  flush(): Promise<void>;
};

const MAX_BYTES = 1024 * 1024;

/**
 * Opens a file for appending. At 1 MiB, the file is renamed to `<path>.1` and a new file begins. A line that
 * cannot be written is lost.
 */
export function openEventFile(path: string, { clock }: { clock: Clock }): EventFile {
  let writing = Promise.resolve();

  async function append(line: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    const size = await stat(path).then(
      (stats) => stats.size,
      () => 0,
    );
    if (size >= MAX_BYTES) await rename(path, `${path}.1`);
    await appendFile(path, `${line}\n`);
  }

  return {
    record(object, event) {
      const line = { time: clock.now().toISOString(), object: keyText(keyOf(object)), ...event };
      writing = writing.then(() => append(JSON.stringify(line))).catch(() => undefined);
    },
    flush: () => writing,
  };
}
