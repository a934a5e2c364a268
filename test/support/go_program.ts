import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { lockFolder } from "../../src/dev/process/folder_lock.mjs";

const run = promisify(execFile);

/** One module has all programs, so that they share the compilation of their dependencies. */
const SOURCES = join(import.meta.dirname, "go");
const LOOK_AGAIN_MS = 200;

export type GoProgram = { path: string; missing?: never } | { path?: never; missing: string };

type Options = {
  name: string;
  /** The program's package: a folder of `go/`, such as `./health`, or a package of a required module. */
  source: string;
  folder: string;
  /** Description of the program in the error message if the program is missing. */
  what: string;
  linkerFlags?: string[];
  /** The file with the required modules. Their sums are in the file with the ending `.sum`. */
  modFile?: string;
};

/** Returns the version in which the tests' programs require a module, without its `v`. */
export async function requiredVersion(module: string, modFile = "go.mod"): Promise<string> {
  const text = await readFile(join(SOURCES, modFile), "utf8");
  const [, version] = new RegExp(`\\s${module} v(\\S+)`).exec(text) ?? [];
  if (version === undefined) throw new Error(`${modFile} does not require ${module}`);
  return version;
}

/**
 * Builds a program under `~/.cache/deputize/`, again after a change of its sources. Concurrent callers wait
 * for the same build. Returns what is missing if the program cannot be built.
 */
export async function goProgram(options: Options): Promise<GoProgram> {
  const { name, source, folder, what, modFile = "go.mod" } = options;
  const mainFile = source.startsWith("./") ? [join(source, "main.go")] : [];
  const files = [...mainFile, modFile, sumFileOf(modFile)].map((file) => readFile(join(SOURCES, file)));
  const digest = createHash("sha256")
    .update(Buffer.concat(await Promise.all(files)))
    .digest("hex")
    .slice(0, 12);
  const place = join(homedir(), ".cache", "deputize", `${folder}-${digest}`);
  const path = join(place, name);
  if (await exists(path)) return { path };
  const isThere = await run("go", ["version"]).catch(() => undefined);
  if (isThere === undefined) return { missing: `Go 1.26 or newer, to build ${what}` };
  await mkdir(place, { recursive: true });
  const lock = await lockOnceFree();
  try {
    if (await exists(path)) return { path };
    const unfinished = `${path}.unfinished`;
    await build(options, unfinished);
    await rename(unfinished, path);
    return { path };
  } catch (error) {
    return { missing: `${what}: go build failed: ${lastLines(error)}` };
  } finally {
    lock.release();
  }
}

const sumFileOf = (modFile: string) => modFile.replace(/mod$/, "sum");

/** Makes builds run one after the other. Concurrent builds would compile shared dependencies twice. */
async function lockOnceFree(): Promise<{ release(): void }> {
  for (;;) {
    const lock = await lockFolder(join(homedir(), ".cache", "deputize", "building"));
    if ("release" in lock) return lock;
    await sleep(LOOK_AGAIN_MS);
  }
}

async function build({ source, linkerFlags = [], modFile = "go.mod" }: Options, output: string) {
  const linker = ["-s -w", ...linkerFlags].join(" ");
  const options = ["-trimpath", "-buildvcs=false", `-modfile=${modFile}`, "-ldflags", linker, "-o", output];
  await run("go", ["build", ...options, source], {
    cwd: SOURCES,
    env: { ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly" },
    maxBuffer: 16 * 1024 * 1024,
  });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function lastLines(error: unknown): string {
  const text = (error as { stderr?: string }).stderr ?? String(error);
  return text.trim().split("\n").slice(-3).join(" | ");
}
