import { type ChildProcess, spawn } from "node:child_process";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { killHard } from "../support/process.ts";

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
};

export function createProcess(folder: string, { name, args, env }: Program): Process {
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
      const log = await open(join(folder, `${name}.log`), "a");
      child = spawn(process.execPath, args, { env: { ...env, ...more }, stdio: ["ignore", log.fd, log.fd] });
      await log.close();
    },
    signal: (signal) => void child?.kill(signal),
    async kill() {
      if (child !== undefined) await killHard(child);
    },
  };
}
