import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { killHard, until } from "./process.ts";

export const PROGRAM = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

const STARTED_MS = 180_000;
const STOPPED_MS = 60_000;
const UP = "Ctrl-C ends everything";

export type DevRun = {
  child: ChildProcess;
  said: { out: string; err: string };
  exit: Promise<number | null>;
};

/** Starts `deputize dev` on a free port. */
export function startDev(folder: string, args: readonly string[] = [], path = process.env.PATH): DevRun {
  const child = spawn(process.execPath, [PROGRAM, "dev", "--port", "0", "--data", folder, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, PATH: path },
  });
  const said = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    said.out += chunk;
  });
  child.stderr.on("data", (chunk: Buffer) => {
    said.err += chunk;
  });
  return { child, said, exit: once(child, "close").then(([code]) => code as number | null) };
}

/** Waits until the output contains `last`, so the start is complete. Throws if the process exits first. */
export async function untilUp({ child, said }: DevRun, last = UP): Promise<void> {
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  await until("everything is up", () => said.out.includes(last) || hasEnded(), STARTED_MS);
  if (hasEnded()) throw new Error(`the stack did not start:\n${said.out}${said.err}`);
}

/** Returns the command lines of all processes that still use a folder. */
export async function workersOn(folder: string): Promise<string[]> {
  const found: string[] = [];
  const others = (await readdir("/proc")).filter(
    (name) => /^\d+$/.test(name) && Number(name) !== process.pid,
  );
  for (const pid of others) {
    const read = (name: string) => readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "");
    const [command, environment] = [await read("cmdline"), await read("environ")];
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    if ([command, environment, cwd].some((text) => text.includes(folder))) {
      found.push(command.replaceAll("\0", " "));
    }
  }
  return found;
}

export async function untilLeft(folder: string): Promise<void> {
  await until(`no process uses ${folder}`, async () => (await workersOn(folder)).length === 0);
}

/** The embedded stack, running on a temporary folder. */
export type DevStack = { folder: string; baseUrl: string; stop(): Promise<void> };

/** Starts the stack like `npm start` and waits until it is ready. `stop` also deletes its folder. */
export async function startDevStack(): Promise<DevStack> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-stack-"));
  const run = startDev(folder);
  const stop = async () => {
    run.child.kill("SIGINT");
    await Promise.race([run.exit, sleep(STOPPED_MS, undefined, { ref: false })]);
    await killHard(run.child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilUp(run);
  } catch (error) {
    await stop();
    throw error;
  }
  const { base_url: baseUrl } = JSON.parse(await readFile(join(folder, "connection.json"), "utf8"));
  return { folder, baseUrl, stop };
}

export async function environmentOf({ folder }: DevStack, part: string): Promise<Record<string, string>> {
  const { parts } = JSON.parse(await readFile(join(folder, "run.json"), "utf8"));
  const text = await readFile(`/proc/${parts[part].pid}/environ`, "utf8");
  return Object.fromEntries(
    text
      .split("\0")
      .filter((line) => line.includes("="))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}
