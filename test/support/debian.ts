import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const INSTALL = ["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
const TRIES = 3;
const LISTS_IN_USE_MS = 10_000;

/**
 * Returns the path of a program or library, or undefined if it is missing. If this process is root, first
 * installs the missing package.
 */
export async function debianProgram(path: string, packageName: string): Promise<string | undefined> {
  if (!existsSync(path) && process.getuid?.() === 0 && existsSync("/usr/bin/apt-get")) {
    await installPackage(packageName);
  }
  return existsSync(path) ? path : undefined;
}

/**
 * Retries, since several test files may install packages concurrently. apt waits for another installation,
 * but not for an update of the package lists.
 */
async function installPackage(name: string): Promise<void> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const fault = await apt(...INSTALL, name);
    if (fault === undefined) return;
    console.warn(`apt-get install ${name}: ${fault}`);
    if ((await apt("update", "-y")) !== undefined) await sleep(LISTS_IN_USE_MS);
  }
}

/** Returns the error message if apt-get fails. */
async function apt(...args: string[]): Promise<string | undefined> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  try {
    await run("apt-get", args, { env });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown";
  }
}
