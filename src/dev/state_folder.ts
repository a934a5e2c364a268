import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { exitStatus } from "../input/exit_status.ts";
import { lockFolder, processBirth } from "./process/folder_lock.mjs";
import { fileError, UserError } from "./user_error.ts";

/** Version of the folder's file layout. Increase it when older programs can no longer use the folder. */
const LAYOUT = 1;
const VERSION_FILE = "version.json";
/** A folder without a version may contain these entries, because they are not data. */
const NO_DATA = new Set(["lock", "logs", "setup"]);

type StateFolder = {
  path: string;
  release(): void;
};

/**
 * Locks the state folder, so that only this process uses it. Creates the folder if it is missing. Throws
 * `UserError` if another living stack uses the folder or if its layout is unsupported.
 */
export async function openStateFolder(path: string): Promise<StateFolder> {
  const lock = await makeFolder(path)
    .then(() => lockFolder(join(path, "lock")))
    .catch((cause: unknown) => {
      throw unusable(path, cause);
    });
  if ("heldBy" in lock) {
    throw new UserError(
      `A stack is already running on ${path}, started by process ${lock.heldBy}`,
      `Stop it with Ctrl-C where it runs, or with: kill ${lock.heldBy}`,
      { status: exitStatus.setting },
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

const NO_FOLDERS = "no folder can be made there";
const ELSEWHERE = "Choose another folder with --data";

function unusable(path: string, cause: unknown): UserError {
  if (cause instanceof UserError) return cause;
  const failure: NodeJS.ErrnoException = cause instanceof Error ? cause : new Error(String(cause));
  const reason = failure.code === "ENOENT" ? NO_FOLDERS : failure.message;
  return fileError(cause, path) ?? new UserError(`${path} cannot be used: ${reason}`, ELSEWHERE, { cause });
}

/**
 * Creates a folder and its missing parents, mode 0700. Existing folders stay unchanged. Creates one level at
 * a time: Node's recursive mkdir hangs where no folder can be created, such as below /proc.
 */
export async function makeFolder(path: string): Promise<void> {
  if (await ensureFolder(path)) return;
  await makeFolder(dirname(path));
  if (!(await ensureFolder(path))) {
    throw new UserError(`${path} cannot be used: ${NO_FOLDERS}`, ELSEWHERE);
  }
}

/** Creates the folder if it is missing. Returns false if the parent is missing. */
async function ensureFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 });
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return true;
    if (code === "ENOENT") return false;
    throw error;
  }
}

/** Writes a file with mode 0600 completely or not at all, even in a crash. Throws `UserError`. */
export async function writeAtomically(path: string, content: string): Promise<void> {
  const partial = `${path}.partial`;
  try {
    const file = await open(partial, "w", 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw fileError(error, path) ?? error;
  }
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
      throw new UserError(
        `${path} holds data (${found[0]}) but not ${VERSION_FILE}, so its layout is unknown`,
        `Put the file back, or ${startAfresh}`,
      );
    }
    await writeAtomically(file, `${JSON.stringify({ layout: LAYOUT })}\n`);
    return;
  }
  const layout = layoutOf(text);
  if (layout === undefined) {
    throw new UserError(
      `${file} does not contain a valid layout version`,
      `Put back a copy of the folder, or ${startAfresh}`,
    );
  }
  if (layout !== LAYOUT) {
    throw new UserError(
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

const GRACE_MS = 10_000;

const runSchema = z.object({
  pid: z.number(),
  parts: z.record(z.string(), z.object({ pid: z.number(), birth: z.string(), ports: z.array(z.number()) })),
});

/** Content of `run.json`: the stack's own process and its parts' processes, each by ID and start time. */
export type Run = z.infer<typeof runSchema>;

function pathOf(folder: string): string {
  return join(folder, "run.json");
}

/** Records the processes that currently run. */
export async function writeRun(folder: string, run: Run): Promise<void> {
  await writeAtomically(pathOf(folder), `${JSON.stringify(run, undefined, 2)}\n`);
}

/**
 * Waits until the processes of an earlier stack on this folder have exited. They exit when that stack is
 * killed. Kills those that still run after ten seconds. The caller must have locked the folder.
 */
export async function untilEarlierRunEnded(folder: string): Promise<void> {
  const text = await readFile(pathOf(folder), "utf8").catch(() => "{}");
  const run = runSchema.safeParse(parse(text));
  let living = Object.values(run.data?.parts ?? {});
  const giveUp = performance.now() + GRACE_MS;
  for (let killed = false; living.length > 0; await sleep(25)) {
    living = living.filter(({ pid, birth }) => processBirth(pid) === birth);
    if (!killed && performance.now() > giveUp) {
      killed = true;
      for (const { pid } of living) {
        process.kill(pid, "SIGKILL");
      }
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
