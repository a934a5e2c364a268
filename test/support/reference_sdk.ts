import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";

const run = promisify(execFile);
const JUDGE = resolve(import.meta.dirname, "reference_judge.py");

const REQUIREMENTS = [
  "ratify-protocol==1.0.0a20",
  "cryptography==50.0.2",
  "pqcrypto==0.4.0",
  "cffi==2.1.1",
  "pycparser==3.12",
  "tzdata==2026.6",
];

/** Returns the published Python SDK's answers in the order of the questions. */
export type Reference = (questions: readonly object[]) => Promise<Record<string, unknown>[]>;

/** Installs the published SDK under `~/.cache/deputize/`, or returns what is missing. */
export async function findReference(): Promise<Reference | { missing: string }> {
  try {
    const { stdout: version } = await run("python3", [
      "-c",
      "import platform; print(platform.python_version())",
    ]);
    const packages = await installed(version.trim());
    return (questions) => ask(packages, questions);
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return { missing: stderr?.trim().split("\n").at(-1) || message };
  }
}

async function installed(version: string): Promise<string> {
  const digest = createHash("sha256")
    .update([version, ...REQUIREMENTS].join("\n"))
    .digest("hex")
    .slice(0, 16);
  const cache = join(homedir(), ".cache", "deputize");
  const folder = join(cache, `reference-sdk-${digest}`);
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const fresh = await mkdtemp(join(cache, "reference-sdk-new-"));
  try {
    const pip = [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "--no-deps",
      "--only-binary=:all:",
    ];
    await run("python3", [...pip, "--target", fresh, ...REQUIREMENTS]);
    await rename(fresh, folder);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

async function ask(packages: string, questions: readonly object[]): Promise<Record<string, unknown>[]> {
  const env = { ...process.env, PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn("python3", ["-s", JUDGE], { env, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(questions));
  return JSON.parse(await text(child.stdout));
}
