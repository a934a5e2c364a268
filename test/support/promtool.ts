import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const CACHE = join(homedir(), ".cache", "deputize");
const PACKAGE = "prometheus";
const PROGRAM = "usr/bin/promtool";
const FETCH_MS = 120_000;

export type Promtool = { path: string; missing?: never } | { path?: never; missing: string };

/**
 * Finds promtool in the PATH, or unpacks it from Debian's package, whose installation would start a server.
 * Updates the package lists if they do not contain promtool. If that fails, uses an earlier run's copy.
 */
export async function promtool(): Promise<Promtool> {
  const installed = await run("promtool", ["--version"]).catch(() => undefined);
  if (installed !== undefined) return { path: "promtool" };
  try {
    const version = await candidate();
    const kept = join(CACHE, `promtool-${version}`);
    if (!existsSync(join(kept, PROGRAM))) await unpack(kept);
    return { path: join(kept, PROGRAM) };
  } catch (error) {
    const [before] = globSync(`promtool-*/${PROGRAM}`, { cwd: CACHE });
    if (before !== undefined) return { path: join(CACHE, before) };
    const { stderr = "", message } = error as Error & { stderr?: string };
    const reason = (stderr.trim() || message).split("\n").at(-1);
    return { missing: `promtool, in the PATH or in Debian's package ${PACKAGE}: ${reason}` };
  }
}

async function candidate(): Promise<string> {
  const version = (await listed()) ?? (await run("apt-get", ["update"], { timeout: FETCH_MS }).then(listed));
  if (version === undefined) throw new Error("the package lists do not contain it, even after an update");
  return version.replaceAll(/[^\w.+~-]/g, "_");
}

async function listed(): Promise<string | undefined> {
  const { stdout } = await run("apt-cache", ["policy", PACKAGE], { env: { ...process.env, LC_ALL: "C" } });
  const [, version] = /Candidate: (\S+)/.exec(stdout) ?? [];
  return version === "(none)" ? undefined : version;
}

async function unpack(kept: string): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, "unfinished-promtool-"));
  try {
    await run("apt-get", ["download", PACKAGE], { cwd: folder, timeout: FETCH_MS });
    const [file] = (await readdir(folder)).filter((name) => name.endsWith(".deb"));
    if (file === undefined) throw new Error("apt-get download left no file");
    await run("dpkg", ["-x", join(folder, file), join(folder, "root")]);
    // Another process may have unpacked the same package first.
    await rename(join(folder, "root"), kept).catch((error: unknown) => {
      if (!existsSync(join(kept, PROGRAM))) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
