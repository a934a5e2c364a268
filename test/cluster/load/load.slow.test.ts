import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevStack, environmentOf, PROGRAM, startDevStack } from "../../support/dev_stack.ts";
import { killHard } from "../../support/process.ts";
import { linesOf, startLoad, type Target } from "./load.ts";

/** Tests the load and the checks of `npm run test:cluster` on the embedded stack with a second worker. */
let stack: DevStack;
let target: Target;
let workerEnv: Record<string, string>;
let folder: string;
const workers: ChildProcess[] = [];

beforeAll(async () => {
  stack = await startDevStack();
  folder = await mkdtemp(join(tmpdir(), "deputize-load-"));
  const secret = async (name: string) => (await readFile(join(stack.folder, "secrets", name), "utf8")).trim();
  target = {
    apiUrl: stack.baseUrl,
    mailboxUrl: stack.baseUrl,
    databaseUrl: await secret("database.url"),
    sealingKey: await secret("sealing.key"),
    receiverHost: "127.0.0.1",
  };
  workerEnv = { ...(await environmentOf(stack, "worker")), HEALTH_PORT: "0" };
});

afterAll(async () => {
  await Promise.all(workers.map(killHard));
  await stack?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

function startWorker(): ChildProcess {
  const worker = spawn(process.execPath, [PROGRAM, "worker"], { env: workerEnv, stdio: "ignore" });
  workers.push(worker);
  return worker;
}

test("a moderate load with two workers has no problems", async () => {
  startWorker();
  const load = await startLoad(target, { folder: join(folder, "calm"), perSecond: 200, proven: 1_000 });
  await sleep(10_000);
  const report = await load.stop();
  console.log(linesOf(report).join("\n"));
  expect(report.problems).toEqual([]);
  expect(report.ordered).toBe(4);
  expect(report.report.events).toBeGreaterThan(8);
  expect(report.verified.allowed).toBeGreaterThan(100);
});

test("a load loses nothing while a worker is killed", async () => {
  const load = await startLoad(target, { folder: join(folder, "killed"), perSecond: 100 });
  const worker = startWorker();
  await sleep(3_000);
  await load.fault("worker killed", () => killHard(worker));
  await sleep(3_000);
  const report = await load.stop();
  console.log(linesOf(report).join("\n"));
  expect(report.problems).toEqual([]);
  expect(report.report.events).toBeGreaterThan(8);
});
