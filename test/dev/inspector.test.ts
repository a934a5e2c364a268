import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningPart, runningChild, spawnLogged } from "../../src/dev/process/part.ts";
import { listeningPorts, portsAfterSigusr1 } from "../support/inspector.ts";
import { until } from "../support/process.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

let folder: string;
let operator: RunningPart;

/** Like a service manager, starts the role without any Node option. The role's API is unavailable. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-inspector-"));
  const env = {
    API_URL: "http://127.0.0.1:9",
    OPERATOR_API_URL: "http://127.0.0.1:9",
    CONSOLE_URL: "http://127.0.0.1:9",
    OPERATOR_TOKEN: "0".repeat(32),
    MANIFESTS_DIR: folder,
    STATUS_DIR: join(folder, "status"),
    SECRETS_DIR: join(folder, "secrets"),
    HEALTH_PORT: "0",
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
  };
  const options = { env, graceMs: 5_000, logFile: join(folder, "log") };
  const { child, output } = await spawnLogged(process.execPath, [MAIN, "operator"], options);
  operator = runningChild(child, 5_000);
  await until(
    "the operator answers probes",
    async () => listeningPorts(operator.pid).length > 0,
    30_000,
  ).catch(async (error: unknown) => {
    throw new Error(`${String(error)}\n${await output()}`);
  });
});
afterAll(async () => {
  await operator?.stop();
  await rm(folder, { recursive: true, force: true });
});

test.skipIf(!existsSync("/proc/self/fd"))(
  "a role opens no inspector on SIGUSR1 and keeps running",
  async () => {
    const before = listeningPorts(operator.pid);
    expect(await portsAfterSigusr1(operator.pid)).toEqual(before);
    expect(before.length).toBe(1);
  },
);
