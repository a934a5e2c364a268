import { readdir, readFile, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { createPerKeyQueue } from "../../concurrency/per_key_queue.ts";
import { frozen, type Key, keyOf, keyText } from "../kinds.ts";
import type { Change } from "../resources.ts";
import { isMissing, removeDurably, UNFINISHED, writeAtomically } from "./atomic_file.ts";
import type { BindingsFound, Known } from "./plan.ts";
import { bindingsText, parseBindingsState, parseState, StateDamaged, stateText } from "./state_file.ts";

/** Why a manifest was never accepted, and the content of the file that reports the reason. */
export type Report = { message: string; text: string };

/** The objects of a folder with their state, in one file per object. */
export type Store = {
  known(): ReadonlyMap<string, Known>;
  get(key: Key): Known | undefined;
  bindings(): BindingsFound | undefined;
  /**
   * Replaces the record of one object. If `change` returns `undefined`, the record is removed. If `change`
   * returns its argument, nothing is written. Changes to one object run one after another. Resolves when the
   * file is written and the listeners have been called.
   */
  change(key: Key, change: (known: Known | undefined) => Known | undefined): Promise<void>;
  setBindings(bindings: BindingsFound | undefined): Promise<void>;
  /** Replaces the report for an object that does not exist. `undefined` removes the report. */
  setReport(key: Key, report: Report | undefined): Promise<void>;
  reports(): { key: Key; report: Report }[];
  subscribe(listener: (change: Change) => void): void;
};

const WRITTEN = { mode: 0o644, folderMode: 0o755, replace: true };
const BINDINGS_FILE = "tenants.yaml";
const STATE_FILE = /^(platform|agent|delegation)\..+\.yaml$/;

/** Opens the state of a folder. Throws `StateDamaged` with the path of the first unreadable file. */
export async function openStore(folder: string): Promise<Store> {
  const oneAtATime = createPerKeyQueue();
  const listeners: ((change: Change) => void)[] = [];
  const known = new Map<string, Known>();
  const reports = new Map<string, { key: Key; report: Report }>();
  const pathOf = (key: Key) => join(folder, key.namespace, `${key.kind.toLowerCase()}.${key.name}.yaml`);
  const notify = (change: Change) => {
    for (const listener of listeners) listener(change);
  };

  for (const path of await stateFiles(folder)) {
    const state = parseState(path, await readFile(path, "utf8"));
    if (state === undefined) {
      await rm(path);
    } else if (pathOf(keyOf(state.object)) !== path) {
      throw new StateDamaged(path);
    } else {
      known.set(keyText(keyOf(state.object)), frozen(state));
    }
  }
  let bindings = await readBindings(join(folder, BINDINGS_FILE));

  return {
    known: () => known,
    get: (key) => known.get(keyText(key)),
    bindings: () => bindings,
    reports: () => [...reports.values()],
    subscribe: (listener) => void listeners.push(listener),
    change: (key, change) =>
      oneAtATime(keyText(key), async () => {
        const id = keyText(key);
        const before = known.get(id);
        const after = change(before);
        if (after === before) return;
        if (after === undefined) {
          await removeDurably(pathOf(key));
        } else {
          await writeAtomically(pathOf(key), stateText(after), WRITTEN);
        }
        if (after === undefined) {
          known.delete(id);
        } else {
          known.set(id, frozen(after));
        }
        reports.delete(id);
        notify(key);
      }),
    setBindings: (next) =>
      oneAtATime(BINDINGS_FILE, async () => {
        const path = join(folder, BINDINGS_FILE);
        if (next === undefined) {
          await removeDurably(path);
        } else {
          await writeAtomically(path, bindingsText(next), WRITTEN);
        }
        bindings = next;
        notify({ kind: "Bindings", namespace: "", name: "" });
      }),
    setReport: (key, report) =>
      oneAtATime(keyText(key), async () => {
        const id = keyText(key);
        if (known.has(id) || reports.get(id)?.report.message === report?.message) return;
        if (report === undefined) {
          await removeDurably(pathOf(key));
        } else {
          await writeAtomically(pathOf(key), report.text, WRITTEN);
        }
        if (report === undefined) {
          reports.delete(id);
        } else {
          reports.set(id, { key, report });
        }
      }),
  };
}

/** Removes files that a crash left unfinished. Objects are grouped in one folder per namespace. */
async function stateFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const files = entries.filter((entry) => entry.isFile());
  for (const { parentPath, name } of files) {
    if (UNFINISHED.test(name)) await rm(join(parentPath, name), { force: true });
  }
  return files
    .filter(({ parentPath, name }) => relative(folder, parentPath) !== "" && STATE_FILE.test(name))
    .map(({ parentPath, name }) => join(parentPath, name));
}

async function readBindings(path: string): Promise<BindingsFound | undefined> {
  try {
    return parseBindingsState(path, await readFile(path, "utf8"));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
