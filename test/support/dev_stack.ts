import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { killHard, until } from "./process.ts";

/** The service's program. */
export const PROGRAM = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

const STARTED_MS = 180_000;
const STOPPED_MS = 60_000;

/** The embedded stack, up, on a folder of its own. */
export type DevStack = { folder: string; baseUrl: string; stop(): Promise<void> };

/** Starts it as `npm start` does and waits until it stays up. Stopping it takes its folder away. */
export async function startDevStack(): Promise<DevStack> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-stack-"));
  const child = spawn(process.execPath, [PROGRAM, "dev", "--port", "0", "--data", folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const stop = async () => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk;
  });
  try {
    const isUp = () => said.includes("Ctrl-C ends everything") || child.exitCode !== null;
    await until("everything is up", isUp, STARTED_MS);
    if (child.exitCode !== null) throw new Error(`the stack did not start:\n${said}`);
  } catch (error) {
    await stop();
    throw error;
  }
  const { base_url: baseUrl } = JSON.parse(await readFile(join(folder, "connection.json"), "utf8"));
  return { folder, baseUrl, stop };
}

/** The environment of a part of the stack, as the kernel keeps it. */
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

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGINT");
  await Promise.race([exit, sleep(STOPPED_MS, undefined, { ref: false })]);
  await killHard(child);
}
