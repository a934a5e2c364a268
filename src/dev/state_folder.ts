import { mkdir, open, readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { claim } from "./claim.mjs";
import { Problem } from "./problem.ts";

/** The number of this arrangement of files below the state folder; it changes when an older program could not use it. */
const LAYOUT = 1;
const VERSION_FILE = "version.json";
/** What may be there before the folder has a version, because it is no data. */
const NO_DATA = new Set(["lock", "logs", "setup"]);

/** A state folder that belongs to this process until it is released. */
export interface StateFolder {
  path: string;
  release(): void;
}

/**
 * Opens the folder in which a stack keeps everything, creating it when there is none, for this process alone.
 * @throws {Problem} when another living stack has it, or when it is not of this program's layout.
 */
export async function openStateFolder(path: string): Promise<StateFolder> {
  const lock = await mkdir(path, { recursive: true, mode: 0o700 })
    .then(() => claim(join(path, "lock")))
    .catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Problem(`${path} cannot be used: ${reason}`, undefined, { cause });
    });
  if ("heldBy" in lock) {
    throw new Problem(
      `A stack is already running on ${path}, started by process ${lock.heldBy}`,
      `Stop it with Ctrl-C where it runs, or with: kill ${lock.heldBy}`,
    );
  }
  try {
    await checkVersion(path);
  } catch (error) {
    lock.release();
    throw error;
  }
  return { path, release: lock.release };
}

/** Writes a file so that a reader, or a crash, finds either the old content or the new one. */
export async function writeAtomically(path: string, content: string): Promise<void> {
  const partial = `${path}.partial`;
  const file = await open(partial, "w", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
}

async function checkVersion(path: string): Promise<void> {
  const file = join(path, VERSION_FILE);
  const startAfresh = `start afresh, which loses what is in it: rm -r ${path}`;
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  });
  if (text === undefined) {
    const found = (await readdir(path)).filter((name) => !NO_DATA.has(name) && !name.endsWith(".partial"));
    if (found.length > 0) {
      throw new Problem(
        `${path} holds data (${found[0]}) but not ${VERSION_FILE}, so it is not clear what wrote it`,
        `Put the file back, or ${startAfresh}`,
      );
    }
    await writeAtomically(file, `${JSON.stringify({ layout: LAYOUT })}\n`);
    return;
  }
  const layout = layoutOf(text);
  if (layout === undefined) {
    throw new Problem(`${file} cannot be understood`, `Put back a copy of the folder, or ${startAfresh}`);
  }
  if (layout !== LAYOUT) {
    throw new Problem(
      `${path} was written by ${layout > LAYOUT ? "a newer" : "an older"} version (layout ${layout}, this one uses ${LAYOUT})`,
      `Use that version, or ${startAfresh}`,
    );
  }
}

function layoutOf(text: string): number | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const layout =
      typeof value === "object" && value !== null && "layout" in value ? value.layout : undefined;
    return Number.isSafeInteger(layout) ? (layout as number) : undefined;
  } catch {
    return undefined;
  }
}
