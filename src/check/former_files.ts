import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { posix, relative, sep } from "node:path";
import { environmentWith } from "../config.ts";
import { UsageError } from "../input/exit_status.ts";
import { MAX_FILE_BYTES } from "../operator/folder/documents.ts";
import { isManifestPath, type ManifestText, textOf } from "../operator/folder/listing.ts";

/** Git could not be asked. The message says why. */
export class GitFailed extends Error {
  override name = "GitFailed";
}

type TreeEntry = { isLink: boolean; object: string; bytes: number };
type Tree = ReadonlyMap<string, TreeEntry>;

const INCOMPLETE = "The former manifests are incomplete in this clone";

/** How many links to follow from a file. Git can store a loop of links. */
const MAX_LINKS = 8;

/**
 * Returns the files with these `names` that a folder had in a Git revision, as they were committed. `only` is
 * the name of a single file to return. Follows links to files of the same revision, but not links to folders.
 * Runs no code of the repository: Git only lists and prints stored objects.
 *
 * Throws `UsageError` for an unknown revision or a folder outside a repository, and `GitFailed`.
 */
export async function formerFiles(
  folder: string,
  revision: string,
  { names, only }: { names: RegExp; only?: string | undefined },
): Promise<ManifestText[]> {
  const top = await topOf(folder);
  const tree = await readTree(top, await commitOf(folder, revision));
  const links = await readBlobs(
    top,
    [...tree.values()].filter(({ isLink }) => isLink),
  );
  const inner = relative(await realpath(top), await realpath(folder))
    .split(sep)
    .join("/");
  const chosen = [...tree.keys()].flatMap((path) => {
    const name = inner === "" ? path : path.startsWith(`${inner}/`) ? path.slice(inner.length + 1) : "";
    if (!isManifestPath(name, names) || (only !== undefined && only !== name)) return [];
    return [{ name, entry: tree.get(followLinks(path, tree, links)) }];
  });
  const blobs = await readBlobs(
    top,
    chosen.flatMap(({ entry }) => entry ?? []),
  );
  return chosen.map(({ name, entry }) => {
    const bytes = entry === undefined ? undefined : blobs.get(entry.object);
    if (bytes !== undefined) return { path: name, ...textOf(bytes) };
    const fault = entry === undefined ? "is a link to no file" : `has more than ${MAX_FILE_BYTES} bytes`;
    return { path: name, fault };
  });
}

/** Returns the path of the file to which links lead from `path`, or a path without a file. */
function followLinks(path: string, tree: Tree, links: ReadonlyMap<string, Buffer>): string {
  let at = path;
  for (let count = 0; count <= MAX_LINKS; count += 1) {
    const entry = tree.get(at);
    if (entry?.isLink !== true) return at;
    const target = links.get(entry.object)?.toString("utf8") ?? "";
    at = posix.isAbsolute(target) ? "" : posix.join(posix.dirname(at), target);
  }
  return "";
}

async function topOf(folder: string): Promise<string> {
  const { out, fault } = await git(folder, ["rev-parse", "--show-toplevel"]);
  if (fault !== undefined) throw new UsageError(`--base needs a folder in a Git repository: ${fault}`);
  return out.toString("utf8").replace(/\n$/, "");
}

async function commitOf(folder: string, revision: string): Promise<string> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`];
  const { out, fault } = await git(folder, args);
  if (fault === undefined) return out.toString("utf8").trim();
  const name = JSON.stringify(revision);
  throw new UsageError(`--base ${name} is no revision in this clone. A shallow clone has too few revisions`);
}

async function readTree(top: string, commit: string): Promise<Tree> {
  const { out, fault } = await git(top, ["ls-tree", "-r", "-l", "-z", commit]);
  if (fault !== undefined) throw new GitFailed(`The former manifests cannot be listed: ${fault}`);
  const tree = new Map<string, TreeEntry>();
  for (const line of out.toString("utf8").split("\0")) {
    const [, mode, type, object, size, path] = /^(\d+) (\w+) ([0-9a-f]+) +(\S+)\t(.*)$/s.exec(line) ?? [];
    if (type !== "blob" || object === undefined || path === undefined) continue;
    // Git prints BAD as the size of a file that a partial clone does not have.
    if (Number.isNaN(Number(size))) throw new GitFailed(INCOMPLETE);
    tree.set(path, { isLink: mode === "120000", object, bytes: Number(size) });
  }
  return tree;
}

/** Reads stored files by their ids. Leaves out those that are larger than a manifest may be. */
async function readBlobs(top: string, entries: readonly TreeEntry[]): Promise<Map<string, Buffer>> {
  const blobs = new Map<string, Buffer>();
  const objects = new Set(entries.filter(({ bytes }) => bytes <= MAX_FILE_BYTES).map(({ object }) => object));
  if (objects.size === 0) return blobs;
  const { out, fault } = await git(top, ["cat-file", "--batch"], [...objects].join("\n"));
  if (fault !== undefined) throw new GitFailed(`The former manifests cannot be read: ${fault}`);
  for (let at = 0; at < out.length; ) {
    const end = out.indexOf("\n", at);
    const [object = "", , size] = out.subarray(at, end).toString("utf8").split(" ");
    if (size === undefined) throw new GitFailed(INCOMPLETE);
    blobs.set(object, out.subarray(end + 1, end + 1 + Number(size)));
    at = end + 1 + Number(size) + 1;
  }
  return blobs;
}

/**
 * A commit may contain a folder that looks like a bare repository, with its own settings and revisions. Git
 * must not take it for the repository.
 */
const SAFELY = ["-c", "safe.bareRepository=explicit"];

/**
 * Git fetches missing objects of a partial clone, and the repository's settings can name a program for that.
 * Unlike `protocol.allow`, the repository cannot override these variables.
 */
const WITHOUT_FETCHING = { GIT_ALLOW_PROTOCOL: "none", GIT_NO_LAZY_FETCH: "1" };

const MAX_OUTPUT_BYTES = 1024 * 1024 * 1024;

type Answer = { out: Buffer; fault?: string };

/** Runs Git. `fault` is the first line of its message, if it fails. Throws `GitFailed` if there is no Git. */
function git(folder: string, args: readonly string[], input = ""): Promise<Answer> {
  const env = environmentWith(WITHOUT_FETCHING);
  const options = { cwd: folder, env, encoding: "buffer", maxBuffer: MAX_OUTPUT_BYTES } as const;
  return new Promise((resolve, reject) => {
    const child = execFile("git", [...SAFELY, ...args], options, (error, out, err) => {
      if (error === null) {
        resolve({ out });
      } else if (error.code === "ENOENT") {
        reject(new GitFailed("--base needs the program git"));
      } else {
        resolve({ out, fault: err.toString("utf8").split("\n")[0] || `git ended with ${error.code}` });
      }
    });
    // Git may end before it has read everything. Its exit status then says why.
    child.stdin?.on("error", () => undefined).end(input);
  });
}
