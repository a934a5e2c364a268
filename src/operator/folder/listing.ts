import { isUtf8 } from "node:buffer";
import { constants, type Dirent, type Stats } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MAX_FILE_BYTES, type ManifestFile, readDocuments } from "./documents.ts";

/** The manifests of a folder, or the reason why they cannot be read. */
type Reading<F> =
  | { files: F[]; fingerprint: string; fault?: never }
  | { files?: never; fingerprint?: never; fault: string };

/** The text of a manifest by its path in the folder, or the reason why it must not be used. */
export type ManifestText =
  | { path: string; text: string; fault?: never; beingWritten?: never }
  | { path: string; text?: never; fault: string; beingWritten?: true };

/**
 * Stamps of files by their path inside the folder. Every write or replacement changes a file's stamp, except
 * a write of the same size within the precision of the file system's times.
 */
type Listing = Map<string, string>;

const MAX_DEPTH = 16;
const MANIFEST = /\.ya?ml$/;

/** Reads the documents of every manifest that {@link readTexts} finds, under the same conditions. */
export async function readManifests(folder: string, quietMs: number): Promise<Reading<ManifestFile>> {
  const reading = await readTexts(folder, quietMs);
  if (reading.fault !== undefined) return reading;
  const files = reading.files.map((file) =>
    file.text === undefined ? file : readDocuments(file.path, file.text),
  );
  return { ...reading, files };
}

/**
 * Reads every file below a folder whose name matches `names`, by default `*.yaml` and `*.yml`. Skips names
 * that begin with a dot, and follows links.
 *
 * A file that changed, appeared or vanished during the read or `quietMs` before counts as being written,
 * because it may be half-written. If any part of the folder is unreadable, the whole reading is a fault, so
 * that an incomplete list never passes for a complete one.
 */
export async function readTexts(
  folder: string,
  quietMs: number,
  names = MANIFEST,
): Promise<Reading<ManifestText>> {
  try {
    const before = await list(folder, names);
    await sleep(quietMs);
    const listed = await list(folder, names);
    const files = await Promise.all([...listed.keys()].map((path) => readOne(folder, path)));
    const after = await list(folder, names);
    const isQuiet = ({ path }: { path: string }) =>
      [before, after].every((listing) => listing.get(path) === listed.get(path));
    const vanished = [...before.keys(), ...after.keys()]
      .filter((path) => !listed.has(path))
      .map(beingWritten);
    return {
      files: [...files.map((file) => (isQuiet(file) ? file : beingWritten(file.path))), ...vanished],
      fingerprint: fingerprint(listed),
    };
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    return { fault: `the folder cannot be read (${String(code ?? message)})` };
  }
}

/** Returns a string of the manifests' stamps. Returns `undefined` if the folder is unreadable. */
export async function fingerprintOf(folder: string): Promise<string | undefined> {
  return list(folder).then(fingerprint, () => undefined);
}

/**
 * Returns the folder and its subfolders, each with an id. A different folder under the same path has a
 * different id. Skips folders that cannot be read.
 */
export async function listFolders(root: string): Promise<Map<string, string>> {
  const folders = new Map<string, string>();
  const add = async (path: string, depth: number): Promise<void> => {
    const stats = await statOf(path).catch(() => undefined);
    if (stats?.isDirectory() !== true || depth > MAX_DEPTH) return;
    folders.set(`${stats.ino} ${path}`, path);
    const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
    const names = entries.filter((entry) => mayMatter(entry) && !entry.isFile()).map(({ name }) => name);
    await Promise.all(names.map((name) => add(join(path, name), depth + 1)));
  };
  await add(root, 0);
  return folders;
}

/** Returns the files' stamps by path inside the folder; `undefined` if any part of it cannot be read. */
export async function listStamps(folder: string): Promise<Map<string, string> | undefined> {
  return list(folder).catch(() => undefined);
}

function fingerprint(listing: Listing): string {
  return [...listing].map(([path, stamp]) => `${path} ${stamp}`).join("\n");
}

function beingWritten(path: string): ManifestText {
  return { path, fault: "is being written", beingWritten: true };
}

async function readOne(folder: string, path: string): Promise<ManifestText> {
  try {
    return { path, ...(await readRegularFile(join(folder, path), MAX_FILE_BYTES)) };
  } catch (error) {
    return { path, fault: `cannot be read (${String((error as { code?: unknown }).code ?? "unknown")})` };
  }
}

async function list(folder: string, names = MANIFEST): Promise<Listing> {
  const listing: Listing = new Map();
  await collect(folder, "", 0, { listing, names });
  return new Map([...listing].sort(([left], [right]) => (left < right ? -1 : 1)));
}

/**
 * Returns the paths that {@link readTexts} skips because a name begins with a dot: files with these `names`,
 * and folders, which end with a slash. Omits `.git`. Skips folders that cannot be read.
 */
export async function listHidden(root: string, names: RegExp): Promise<string[]> {
  const found: string[] = [];
  for (const folder of (await listFolders(root)).values()) {
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.name.startsWith(".") || entry.name === ".git") continue;
      const path = relative(root, join(folder, entry.name));
      if (entry.isDirectory()) found.push(`${path}/`);
      else if (names.test(entry.name)) found.push(path);
    }
  }
  return found.sort();
}

type Collection = { listing: Listing; names: RegExp };

async function collect(folder: string, inner: string, depth: number, into: Collection): Promise<void> {
  if (depth > MAX_DEPTH) throw new Error(`more than ${MAX_DEPTH} folders deep`);
  const entries = await readdir(join(folder, inner), { withFileTypes: true });
  for (const entry of entries.filter((each) => mayMatter(each, into.names))) {
    const path = inner === "" ? entry.name : `${inner}/${entry.name}`;
    const stats = await statOf(join(folder, path));
    if (stats?.isDirectory()) {
      await collect(folder, path, depth + 1, into);
    } else if (into.names.test(path)) into.listing.set(path, stampOf(stats));
  }
}

/** Returns whether the reader of a folder would read a file with this path in the folder. */
export function isManifestPath(path: string, names = MANIFEST): boolean {
  return names.test(path) && path.split("/").every((name) => !name.startsWith("."));
}

function mayMatter(entry: Dirent, names = MANIFEST): boolean {
  return !entry.name.startsWith(".") && (!entry.isFile() || names.test(entry.name));
}

function stampOf(stats: Stats | undefined): string {
  if (stats === undefined) return "gone";
  if (!stats.isFile()) return `special ${stats.rdev} ${stats.ino}`;
  return `${stats.size} ${stats.mtimeMs} ${stats.ino}`;
}

/** Returns `undefined` for a file that vanished since it was listed, and for a broken link. */
function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === "ENOENT") return undefined;
    throw error;
  });
}

/** The text of a file, or the reason why it must not be used. */
type FileText = { text: string; fault?: never } | { text?: never; fault: string };

/** The message for a pipe, device, socket or folder, and for a link to one. */
const NOT_REGULAR = "is not a regular file";

/**
 * Makes `open` safe if a special file replaced the regular file after the check. `open` then does not block,
 * and a terminal does not become the controlling terminal.
 */
const HARMLESS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/**
 * Reads a regular file, or the target of a link to one, as UTF-8. Opens no other kind of file: a pipe would
 * block, and a device may never end. Reads at most `maxBytes` + 1 bytes, whatever size the system reports.
 * Throws if the file cannot be read.
 */
export async function readRegularFile(path: string, maxBytes: number): Promise<FileText> {
  const file = await openRegularFile(path);
  if (file === undefined) return { fault: NOT_REGULAR };
  try {
    const bytes = await readUpTo(file, maxBytes + 1);
    return bytes.length > maxBytes ? { fault: `has more than ${maxBytes} bytes` } : textOf(bytes);
  } finally {
    await file.close();
  }
}

/**
 * Opens a regular file, or the target of a link to one, for reading. Returns `undefined` for a file of
 * another kind. Throws if the file cannot be opened.
 */
export async function openRegularFile(path: string): Promise<FileHandle | undefined> {
  if (!(await stat(path)).isFile()) return undefined;
  const file = await open(path, HARMLESS);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  return undefined;
}

/** Decodes UTF-8. kubectl refuses other bytes, so replacing them would read a different text. */
export function textOf(bytes: Uint8Array): FileText {
  return isUtf8(bytes) ? { text: Buffer.from(bytes).toString("utf8") } : { fault: "is not UTF-8" };
}

const CHUNK_BYTES = 64 * 1024;

async function readUpTo(file: FileHandle, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  while (length < limit) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, limit - length));
    const { bytesRead } = await file.read(chunk, 0, chunk.length);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    length += bytesRead;
  }
  return Buffer.concat(chunks);
}
