import type { ChildProcess } from "node:child_process";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../user_error.ts";
import { spawnTied, type TiedOptions } from "./lifeline.mjs";
import type { PartPort } from "./ports.ts";

/** Keeps SIGUSR1 from opening Node's inspector in a part, since every local user could connect to it. */
export const NO_INSPECTOR = "--disable-sigusr1";

/** How many logs of earlier runs are kept. */
const KEPT_LOGS = 3;

/** A process that is ready for work. */
export type RunningPart = {
  pid: number;
  /** Resolves when the process has exited, to a description such as "exit status 1" or "SIGKILL". */
  exited: Promise<string>;
  /**
   * Stops the process, by force after a timeout. Resolves when the process has exited. Can be called twice.
   */
  stop(): Promise<void>;
  kill(): void;
};

export type StartContext = {
  /** All output of the part is appended to this file. */
  logFile: string;
  signal: AbortSignal;
  /** Must be called with the process ID as soon as it is known. */
  spawned(pid: number): void;
};

/** One named process of the stack. */
export type Part = {
  /** A lower-case word that names the log file and the entry in `run.json`. */
  name: string;
  title: string;
  ports?: readonly PartPort[];
  /** Starts the part, also at each restart. If `start` rejects, no process of the part runs. */
  start(context: StartContext): Promise<RunningPart>;
};

export type ProcessPart = Omit<Part, "start"> & {
  command: string;
  args: string[];
  /** The complete environment. Nothing is inherited. Secrets belong in files. */
  env: Record<string, string | undefined>;
  cwd?: string;
  /** Polls until the part is ready. `signal` aborts when the part exits or the startup timeout passes. */
  ready(signal: AbortSignal): Promise<void>;
  /** Milliseconds between the request to stop and SIGKILL. Default 10,000. */
  graceMs?: number;
  /** Startup timeout in milliseconds. Default 60,000. */
  startMs?: number;
};

/** Returns a part that consists of one command and a readiness check. */
export function processPart({ command, args, env, cwd, ready, ...rest }: ProcessPart): Part {
  const { graceMs = 10_000, startMs = 60_000, ...about } = rest;
  return {
    ...about,
    async start({ logFile, signal, spawned }) {
      signal.throwIfAborted();
      const options = { env, graceMs, ...(cwd === undefined ? {} : { cwd }) };
      const { child, output } = await spawnLogged(command, args, { ...options, logFile });
      const running = runningChild(child, graceMs);
      spawned(running.pid);
      const over = new AbortController();
      const anyEnd = AbortSignal.any([signal, over.signal, AbortSignal.timeout(startMs)]);
      const ended = running.exited.then((how) => {
        over.abort();
        return how;
      });
      const outcome = await Promise.race([
        ready(anyEnd).then(
          () => "ready" as const,
          (error: unknown) => error,
        ),
        ended,
        aborted(anyEnd),
      ]);
      if (outcome === "ready") {
        return running;
      }
      const alreadyEnded = child.exitCode !== null || child.signalCode !== null;
      await running.stop();
      signal.throwIfAborted();
      throw new UserError(
        `${about.title} ${alreadyEnded ? `ended while starting (${await ended})` : `did not become ready: ${reason(outcome)}`}`,
        [...lastLines(await output()), `Its log is ${logFile}`].join("\n"),
      );
    },
  };
}

type LoggedOptions = Omit<TiedOptions, "stdio"> & { logFile: string };

/** Starts a tied process that writes to a log file. `output` returns the output up to now. */
export async function spawnLogged(
  command: string,
  args: string[],
  { logFile, ...options }: LoggedOptions,
): Promise<{ child: ChildProcess; output(): Promise<string> }> {
  const log = await open(logFile, "a", 0o600);
  const { size } = await log.stat();
  const child = spawnTied(command, args, { ...options, stdio: ["ignore", log.fd, log.fd] });
  child.on("error", () => undefined);
  await log.close();
  return { child, output: async () => (await readFile(logFile)).subarray(size).toString() };
}

/** Watches a child process. A call of `stop` sends `signal`, and SIGKILL after `graceMs`. */
export function runningChild(
  child: ChildProcess,
  graceMs: number,
  signal: NodeJS.Signals = "SIGTERM",
): RunningPart {
  const exited = new Promise<string>((resolve) => {
    const ended = (code: number | null, killer: NodeJS.Signals | null) =>
      resolve(killer ?? `exit status ${code}`);
    // A child that has already exited emits no further exit event.
    if (child.exitCode !== null || child.signalCode !== null) ended(child.exitCode, child.signalCode);
    child.once("exit", ended);
    child.once("error", (error) => resolve(error.message));
  });
  return {
    pid: child.pid ?? 0,
    exited,
    async stop() {
      child.kill(signal);
      const timer = new AbortController();
      const late = sleep(graceMs, "late", { signal: timer.signal }).catch(() => "cancelled");
      if ((await Promise.race([exited, late])) === "late") {
        child.kill("SIGKILL");
        await exited;
      }
      timer.abort();
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true }),
  );
}

function reason(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

function lastLines(text: string): string[] {
  return text
    .trimEnd()
    .split("\n")
    .slice(-5)
    .filter((line) => line !== "")
    .map((line) => `  ${line.slice(0, 300)}`);
}

/** Returns the path of a part's log in the state folder. */
export function logFile(folder: string, part: string): string {
  return join(folder, "logs", `${part}.log`);
}

/** Keeps the logs of three earlier runs as `.1` (the newest) to `.3`. Returns the new log's path. */
export async function rotateLog(folder: string, part: string): Promise<string> {
  const path = logFile(folder, part);
  await mkdir(join(folder, "logs"), { recursive: true, mode: 0o700 });
  for (let age = KEPT_LOGS; age > 0; age -= 1) {
    const from = age === 1 ? path : `${path}.${age - 1}`;
    await rename(from, `${path}.${age}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") {
        throw error;
      }
    });
  }
  return path;
}
