import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export type GoModule = { folder: string; missing?: never } | { folder?: never; missing: string };

export async function goModule(path: string, version: string): Promise<GoModule> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-module-"));
  try {
    await writeFile(join(folder, "go.mod"), "module deputize.io/test/module\n");
    const args = ["mod", "download", "-json", `${path}@${version}`];
    const { stdout } = await run("go", args, { cwd: folder, env: { ...process.env, GOTOOLCHAIN: "local" } });
    return { folder: (JSON.parse(stdout) as { Dir: string }).Dir };
  } catch (error) {
    const { stdout = "", message } = error as Error & { stdout?: string };
    return { missing: `the Go module ${path}@${version}: ${stdout.trim() || message}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
