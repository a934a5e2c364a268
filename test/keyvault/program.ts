import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { VaultHome } from "./fixture.ts";

/** Path of the vault's program. */
export const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));

const START_DEADLINE_MS = 60_000;

/** Start options of a program, in addition to its arguments. */
export type ProgramOptions = {
  environment?: Record<string, string | undefined>;
  options?: readonly string[];
  /** Shell commands that run before the program. */
  before?: string;
};

/** A running program: its output so far, and a promise of the exit code or signal with which it exits. */
export type Program = { child: ChildProcess; output(): string; ended: Promise<number | string | null> };

/** Starts the vault's program for a home in a process of its own. */
export function startProgram(home: VaultHome, args: readonly string[], given: ProgramOptions = {}): Program {
  const command = [process.execPath, ...(given.options ?? []), MAIN, ...args];
  const shell = given.before && ["/bin/sh", "-c", `${given.before}; exec "$0" "$@"`];
  const [file = "", ...rest] = shell ? [...shell, ...command] : command;
  const child = spawn(file, rest, {
    cwd: home.dir,
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info", ...given.environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text: Buffer) => {
      said += text.toString();
    });
  }
  const ended = once(child, "close").then(([code, signal]) => (code ?? signal) as number | string | null);
  return { child, output: () => said, ended };
}

/** Runs a command with this standard input until it exits. */
export async function runProgram(
  home: VaultHome,
  args: readonly string[],
  { input = Buffer.alloc(0), ...options }: ProgramOptions & { input?: Uint8Array } = {},
): Promise<{ code: number | string | null; output: string }> {
  const { child, output, ended } = startProgram(home, args, options);
  child.stdin?.end(input);
  return { code: await ended, output: output() };
}

/** A vault that serves in a process of its own. */
export type ServedVault = Program & {
  pid: number;
  port: number;
  url: string;
  events: Event[];
  kill(): Promise<void>;
};

type Event = { event?: string; port?: number; file?: string };

/** Starts a vault in a process of its own and waits until it listens. */
export async function serveProgram(home: VaultHome, options: ProgramOptions = {}): Promise<ServedVault> {
  const program = startProgram(home, ["serve"], options);
  const { child, output, ended } = program;
  const events = (): Event[] =>
    output()
      .split("\n")
      .filter((line) => line.startsWith("{") && line.endsWith("}"))
      .map((line) => JSON.parse(line));
  const late = setTimeout(() => child.kill("SIGKILL"), START_DEADLINE_MS);
  const listening = new Promise<Event>((resolve) => {
    child.stdout?.on("data", () => {
      const heard = events().find(({ event }) => event === "listening");
      if (heard !== undefined) resolve(heard);
    });
  });
  const failed = ended.then((code) => Promise.reject(new Error(`exit ${code}: ${output()}`)));
  const { port = 0 } = await Promise.race([listening, failed]).finally(() => clearTimeout(late));
  failed.catch(() => {});
  return {
    ...program,
    pid: child.pid ?? 0,
    port,
    url: `https://localhost:${port}`,
    events: events(),
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Returns the child processes of a process. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean)
    .map(Number);
}

/**
 * Takes a heap snapshot, after garbage collection, of a vault started with `--heapsnapshot-signal=SIGUSR2`.
 */
export async function takeSnapshot(home: VaultHome, { child }: Program): Promise<string> {
  const snapshots = () => readdirSync(home.dir).filter((name) => name.endsWith(".heapsnapshot"));
  const before = snapshots().length;
  child.kill("SIGUSR2");
  await expect.poll(() => snapshots().length, { timeout: 60_000 }).toBe(before + 1);
  const file = join(home.dir, snapshots().sort().at(-1) ?? "");
  const read = () => readFileSync(file, "latin1");
  await expect.poll(() => read().trimEnd().endsWith("}"), { timeout: 60_000 }).toBe(true);
  return read();
}
