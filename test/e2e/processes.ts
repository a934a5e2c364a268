import { type ChildProcess, spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { killHard, until } from "../support/process.ts";

export type Environment = Record<string, string>;

/** A program of Node, with its arguments and its complete environment. */
export type Program = { name: string; args: string[]; env: Environment };

/** A process that can end and start again with the same settings. Its log is `<name>.log` in a folder. */
export type Process = {
  name: string;
  isRunning(): boolean;
  /** Returns the HTTP status of `/readyz`, or 0 without an answer. */
  readiness(): Promise<number>;
  /** Starts the process. `more` has settings for this start only. */
  start(more?: Environment): Promise<void>;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<void>;
  /** Returns the end of the log. */
  log(): Promise<string>;
};

const LOG_LENGTH = 2_000;

/** Waits until a process is ready. Throws an error with the end of its log if that takes too long. */
export async function untilReady(one: Process, ms: number): Promise<void> {
  try {
    await until(`${one.name} is ready`, async () => (await one.readiness()) === 200, ms);
  } catch (error) {
    throw new Error(`${one.name} is not ready:\n${await one.log()}`, { cause: error });
  }
}

export function createProcess(folder: string, { name, args, env }: Program): Process {
  const logFile = join(folder, `${name}.log`);
  const health = `http://127.0.0.1:${env.HEALTH_PORT ?? env.KEYVAULT_HEALTH_PORT}/readyz`;
  let child: ChildProcess | undefined;
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null;
  return {
    name,
    isRunning,
    readiness: () =>
      fetch(health).then(
        ({ status }) => status,
        () => 0,
      ),
    async start(more = {}) {
      const log = await open(logFile, "a");
      child = spawn(process.execPath, args, { env: { ...env, ...more }, stdio: ["ignore", log.fd, log.fd] });
      await log.close();
    },
    signal: (signal) => void child?.kill(signal),
    async kill() {
      if (child !== undefined) await killHard(child);
    },
    log: async () => (await readFile(logFile, "utf8")).slice(-LOG_LENGTH),
  };
}
