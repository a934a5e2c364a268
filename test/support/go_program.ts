import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { lockFolder } from "../../src/dev/process/folder_lock.mjs";

const run = promisify(execFile);

const LOOK_AGAIN_MS = 200;

export type GoProgram = { path: string; missing?: never } | { path?: never; missing: string };

type Options = {
  /** The folder with `go.mod` and `go.sum`, and with `main.go` unless `module` is set. */
  sources: string;
  module?: string;
  name: string;
  folder: string;
  /** Description of the program in the error message if the program is missing. */
  what: string;
  linkerFlags?: string[];
};

/**
 * Builds a program under `~/.cache/deputize/`, again after a change of its sources. Concurrent callers wait
 * for the same build. Returns what is missing if the program cannot be built.
 */
export async function goProgram({
  sources,
  module,
  name,
  folder,
  what,
  linkerFlags = [],
}: Options): Promise<GoProgram> {
  const mainFile = module === undefined ? ["main.go"] : [];
  const files = [...mainFile, "go.mod", "go.sum"].map((file) => readFile(join(sources, file)));
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
  const lock = await lockOnceFree(join(place, "building"));
  try {
    if (await exists(path)) return { path };
    const unfinished = `${path}.unfinished`;
    await build({ sources, what: module ?? ".", output: unfinished, flags: ["-s -w", ...linkerFlags] });
    await rename(unfinished, path);
    return { path };
  } catch (error) {
    return { missing: `${what}: go build failed: ${lastLines(error)}` };
  } finally {
    lock.release();
  }
}

/** Makes builds run one after the other: concurrent builds of the largest program take minutes longer. */
async function lockOnceFree(folder: string): Promise<{ release(): void }> {
  for (;;) {
    const lock = await lockFolder(folder);
    if ("release" in lock) return lock;
    await sleep(LOOK_AGAIN_MS);
  }
}

type Build = { sources: string; what: string; output: string; flags: string[] };

async function build({ sources, what, output, flags }: Build): Promise<void> {
  await run(
    "go",
    ["build", "-trimpath", "-buildvcs=false", "-ldflags", flags.join(" "), "-o", output, what],
    {
      cwd: sources,
      env: { ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly" },
      maxBuffer: 16 * 1024 * 1024,
    },
  );
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
