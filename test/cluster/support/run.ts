import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);
const MOST_OUTPUT = 64 * 1024 * 1024;

/** `env` adds environment variables. `input` is the standard input. */
export type RunOptions = { env?: Record<string, string>; cwd?: string; input?: string };

/** Runs a program and returns its output. If the program fails, rejects with the end of its error output. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const { env = {}, cwd, input = "" } = options;
  const running = execute(command, args, {
    env: { ...process.env, ...env },
    maxBuffer: MOST_OUTPUT,
    ...(cwd === undefined ? {} : { cwd }),
  });
  running.child.stdin?.on("error", () => undefined);
  running.child.stdin?.end(input);
  try {
    return (await running).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    const said = `${stdout}\n${stderr}`.trim().split("\n").slice(-15).join("\n");
    throw new Error(`${command} ${args.slice(0, 6).join(" ")} failed: ${said || String(error)}`);
  }
}
