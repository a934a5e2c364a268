import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { spawnTied } from "../../src/dev/process/lifeline.mjs";
import type { TestConnection } from "../events/support/connection.ts";
import type { GeneratorInput } from "./generator.ts";
import type { ReceiversInput } from "./receivers.ts";

/** A child process of the run, which exits when its standard input closes. */
export type Program = { end(): Promise<void> };

export function startGenerator(input: GeneratorInput): Program {
  return programOf(run("generator.ts", input));
}

/** Starts the receivers in their own process, and resolves when they listen. */
export async function startReceivers(input: ReceiversInput) {
  const child = run("receivers.ts", input);
  const [url] = (await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), "line")) as [
    string,
  ];
  return {
    ...programOf(child),
    url,
    add: ({ connectionId, secret }: Pick<TestConnection, "connectionId" | "secret">) =>
      void child.stdin?.write(`${connectionId} ${secret}\n`),
  };
}

function run(script: string, input: object): ChildProcess {
  return spawnTied(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
    env: { ...process.env, SOAK_INPUT: JSON.stringify(input) },
    stdio: ["pipe", "pipe", "inherit"],
  });
}

function programOf(child: ChildProcess): Program {
  return {
    async end() {
      child.stdout?.resume();
      const exit = hasExited(child) ? undefined : once(child, "exit");
      child.stdin?.end();
      await exit;
      if (child.exitCode !== 0) throw new Error(`A program of the run ended with ${child.exitCode}`);
    },
  };
}

/** Checks whether a process has exited, normally or because of a signal. */
export function hasExited({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
