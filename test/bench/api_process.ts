import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { processPart } from "../../src/dev/process/part.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { untilAnswers } from "../../src/dev/stack_parts.ts";
import { vaultFiles } from "../support/vault_files.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Returns the environment for an API process on free ports, without a vault. */
export async function apiEnvironment(databaseUrl: string, sealingKey: Buffer) {
  const [port, health] = [await freePort(), await freePort()];
  return {
    DATABASE_URL: databaseUrl,
    SEALING_KEY: sealingKey.toString("base64"),
    DEVELOPMENT: "true",
    PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    HEALTH_PORT: String(health),
    VAULT_URL: "https://127.0.0.1:1",
    ...(await vaultFiles()),
  };
}

/** Starts the API as a process, without a vault unless `more` configures one. Its log is in `folder`. */
export async function startApiProcess(
  folder: string,
  databaseUrl: string,
  sealingKey: Buffer,
  more: Record<string, string> = {},
) {
  const env = { ...(await apiEnvironment(databaseUrl, sealingKey)), ...more };
  const part = processPart({
    name: "api",
    title: "API",
    command: process.execPath,
    args: [join(root, "src", "main.ts"), "api"],
    env,
    ready: (signal) => untilAnswers(`http://127.0.0.1:${env.HEALTH_PORT}/readyz`, signal),
  });
  const running = await part.start({
    logFile: join(folder, "api.log"),
    signal: new AbortController().signal,
    spawned: () => {},
  });
  return { port: Number(env.PORT), pid: running.pid, stop: () => running.stop() };
}

export function nodeOptionsOf(pid: number): string {
  const [, ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  return args
    .slice(
      0,
      args.findIndex((arg) => !arg.startsWith("--")),
    )
    .join(" ");
}
