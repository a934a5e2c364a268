import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export type RunningGateway = { stop(): Promise<void>; kill(): Promise<void> };

export type GatewayProgram = {
  program: string;
  /** File contents by name, in a temporary folder. */
  files: (folder: string) => Record<string, string>;
  args: (folder: string) => string[];
  isReady: () => Promise<boolean>;
};

const READY_WITHIN_MS = 60_000;

/** Starts a gateway. Rejects with its error output if it exits or is not ready in time. */
export async function startGateway({
  program,
  files,
  args,
  isReady,
}: GatewayProgram): Promise<RunningGateway> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-gateway-"));
  for (const [name, text] of Object.entries(files(folder))) await writeFile(join(folder, name), text);
  const child = spawn(program, args(folder), { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  let complaints = "";
  for (const output of [child.stdout, child.stderr]) {
    output.on("data", (chunk) => {
      complaints = `${complaints}${chunk}`.slice(-4_000);
    });
  }
  const ended = once(child, "exit");
  const end = async (signal: "SIGTERM" | "SIGKILL") => {
    child.kill(signal);
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  const stop = () => end("SIGTERM");
  for (const until = performance.now() + READY_WITHIN_MS; !(await isReady()); await sleep(100)) {
    if (child.exitCode === null && performance.now() < until) continue;
    await stop();
    throw new Error(`${program} does not run: ${complaints}`);
  }
  return { stop, kill: () => end("SIGKILL") };
}
