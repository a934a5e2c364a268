import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const VERSION = "1.36.3";
const sources = import.meta.dirname;
const run = promisify(execFile);

/** The program, or what is missing to have it. */
export type KubernetesBinary = { path: string; missing?: never } | { path?: never; missing: string };

/**
 * The API server and etcd in one binary, built from Go modules on first use (about 4 minutes on two cores)
 * and kept under `~/.cache/deputize/`. Changed sources build another one. Where it cannot be built, says what
 * is missing.
 */
export async function kubernetesBinary(): Promise<KubernetesBinary> {
  const inputs = await Promise.all(
    ["main.go", "go.mod", "go.sum"].map((file) => readFile(join(sources, file))),
  );
  const digest = createHash("sha256").update(Buffer.concat(inputs)).digest("hex").slice(0, 12);
  const folder = join(homedir(), ".cache", "deputize", `kubernetes-${VERSION}-${digest}`);
  const path = join(folder, "kubernetes");
  if (await exists(path)) return { path };
  const go = await goVersion();
  if (go === undefined) return { missing: "Go 1.26 or newer, to build the Kubernetes API server" };
  await mkdir(folder, { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  try {
    await build(unfinished);
  } catch (error) {
    return { missing: `a Kubernetes API server: go build failed: ${lastLines(error)}` };
  }
  await rename(unfinished, path);
  return { path };
}

async function build(output: string): Promise<void> {
  const version = "k8s.io/component-base/version";
  const [major, minor] = VERSION.split(".");
  const flags = [
    "-s -w",
    `-X ${version}.gitVersion=v${VERSION}`,
    `-X ${version}.gitMajor=${major}`,
    `-X ${version}.gitMinor=${minor}`,
  ];
  await run("go", ["build", "-trimpath", "-buildvcs=false", "-ldflags", flags.join(" "), "-o", output, "."], {
    cwd: sources,
    env: { ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly" },
    maxBuffer: 16 * 1024 * 1024,
  });
}

async function goVersion(): Promise<string | undefined> {
  try {
    return (await run("go", ["version"])).stdout.trim();
  } catch {
    return undefined;
  }
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
