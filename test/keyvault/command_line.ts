import { PassThrough } from "node:stream";
import { vi } from "vitest";
import { runProgram } from "../../keyvault/program.ts";
import type { VaultHome } from "./fixture.ts";

/** Exit code of a command, and what it wrote to its two streams. */
export type Ended = { code: number; stdout: string; stderr: string };

class Exit extends Error {
  readonly code: unknown;
  constructor(code: unknown) {
    super(`exit ${code}`);
    this.code = code;
  }
}

let running: Promise<unknown> = Promise.resolve();

/**
 * Runs a `keyvault` command in this process, with exactly this environment and an empty standard input.
 * Commands run one after the other.
 */
export function runCommand(args: readonly string[], environment: object): Promise<Ended> {
  const ended = running.then(() => inThisProcess(args, environment));
  running = ended.catch(() => {});
  return ended;
}

/** Runs a command of this vault. Rejects with {@link Ended} and its standard error if it fails. */
export async function cli(
  { environment }: Pick<VaultHome, "environment">,
  ...args: string[]
): Promise<Ended> {
  const ended = await runCommand(args, environment);
  if (ended.code !== 0) throw Object.assign(new Error(ended.stderr), ended);
  return ended;
}

async function inThisProcess(args: readonly string[], environment: object): Promise<Ended> {
  const said = { stdout: "", stderr: "" };
  const capture = (name: "stdout" | "stderr") =>
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      said[name] += String(text);
      return true;
    });
  const spies = [
    capture("stdout"),
    capture("stderr"),
    vi.spyOn(console, "error").mockImplementation((text) => void process.stderr.write(`${text}\n`)),
    vi.spyOn(process, "exit").mockImplementation((code) => {
      throw new Exit(code);
    }),
  ];
  const stdin = Object.getOwnPropertyDescriptor(process, "stdin") ?? {};
  const { env } = process;
  Object.defineProperty(process, "stdin", { configurable: true, value: new PassThrough().end() });
  process.env = { ...environment };
  process.exitCode = undefined;
  try {
    await runProgram(args);
    return { code: Number(process.exitCode ?? 0), ...said };
  } catch (error) {
    if (error instanceof Exit) return { code: Number(error.code ?? 0), ...said };
    throw error;
  } finally {
    Object.defineProperty(process, "stdin", stdin);
    process.env = env;
    process.exitCode = undefined;
    for (const spy of spies) spy.mockRestore();
  }
}
