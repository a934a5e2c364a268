import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";

const run = promisify(execFile);
const APT = ["-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];

/**
 * The path of a program that Debian packages: where it is, after installing it when root may. Nothing when it cannot be
 * had; its tests then say so.
 */
export async function debianProgram(path: string, packageName: string): Promise<string | undefined> {
  if (!existsSync(path) && process.getuid?.() === 0 && existsSync("/usr/bin/apt-get")) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const install = () => run("apt-get", ["install", ...APT, packageName], { env });
    await install().catch(async () => {
      await run("apt-get", ["update", "-y"], { env });
      await install();
    });
  }
  return existsSync(path) ? path : undefined;
}
