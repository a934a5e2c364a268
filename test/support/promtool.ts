import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const PACKAGE = "prometheus";
const PROGRAM = "usr/bin/promtool";
const FETCH_MS = 120_000;

/** The program, or what is missing to have it. */
export type Promtool = { path: string; missing?: never } | { path?: never; missing: string };

/**
 * Prometheus' promtool: one in the PATH, or that of Debian's package, which is unpacked under
 * `~/.cache/deputize` and not installed, since that would start a server.
 */
export async function promtool(): Promise<Promtool> {
  const installed = await run("promtool", ["--version"]).catch(() => undefined);
  if (installed !== undefined) return { path: "promtool" };
  try {
    const version = await candidate();
    const kept = join(homedir(), ".cache", "deputize", `promtool-${version}`);
    if (!existsSync(join(kept, PROGRAM))) await unpack(kept);
    return { path: join(kept, PROGRAM) };
  } catch (error) {
    const { stderr = "", message } = error as Error & { stderr?: string };
    const reason = (stderr.trim() || message).split("\n").at(-1);
    return { missing: `promtool, in the PATH or as a part of Debian's package ${PACKAGE}: ${reason}` };
  }
}

async function candidate(): Promise<string> {
  const { stdout } = await run("apt-cache", ["policy", PACKAGE], { env: { ...process.env, LC_ALL: "C" } });
  const [, version = "(none)"] = /Candidate: (\S+)/.exec(stdout) ?? [];
  if (version === "(none)") throw new Error("the lists of packages do not have it: apt-get update");
  return version.replaceAll(/[^\w.+~-]/g, "_");
}

async function unpack(kept: string): Promise<void> {
  const cache = join(kept, "..");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "promtool-unfinished-"));
  try {
    await run("apt-get", ["download", PACKAGE], { cwd: folder, timeout: FETCH_MS });
    const [file] = (await readdir(folder)).filter((name) => name.endsWith(".deb"));
    if (file === undefined) throw new Error("apt-get download left no file");
    await run("dpkg", ["-x", join(folder, file), join(folder, "root")]);
    // Another process may have been faster.
    await rename(join(folder, "root"), kept).catch((error: unknown) => {
      if (!existsSync(join(kept, PROGRAM))) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
