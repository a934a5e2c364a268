import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { PROGRAM } from "../support/dev_stack.ts";
import { killHard, until } from "../support/process.ts";

/** Ctrl-C while the embedded Postgres is made, and while it starts; each test goes on from the one before. */
let folder: string;
let running: ChildProcess | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-interrupted-"));
});

afterEach(async () => {
  if (running) await killHard(running);
});

afterAll(async () => {
  await until("nothing works on the folder", async () => (await leftOver()).length === 0);
  await rm(folder, { recursive: true, force: true });
});

/** Command lines of the processes that work on the folder. */
async function leftOver(): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    if (command.includes(folder) || cwd.startsWith(folder)) found.push(command.replaceAll("\0", " "));
  }
  return found;
}

/**
 * Starts the stack, interrupts it as soon as `when` holds, and reports how it ended, once nothing of it is
 * left.
 */
async function interruptedWhen(when: (said: { out: string }) => boolean | Promise<boolean>) {
  const args = [PROGRAM, "dev", "--port", "0", "--data", folder, "--once"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  running = child;
  const said = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    said.out += chunk;
  });
  child.stderr.on("data", (chunk: Buffer) => {
    said.err += chunk;
  });
  const exit = once(child, "exit");
  await until("the moment has come", () => when(said), 60_000);
  child.kill("SIGINT");
  const [code] = await exit;
  await until("nothing works on the folder", async () => (await leftOver()).length === 0);
  return { code, ...said };
}

const stopped = {
  code: 130,
  err: "",
  out: expect.stringMatching(/^FAIL Postgres .*\n {5}stopped\n/m),
};

test("while Postgres is made it ends with 130, leaves no process and half of nothing", async () => {
  const isMade = async () =>
    (await readdir(join(folder, "postgres")).catch(() => [])).some((name) => name.includes(".partial-"));
  expect(await interruptedWhen(isMade)).toEqual(stopped);
  expect(await readdir(join(folder, "postgres"))).toEqual(["data.password"]);
});

test("the next start makes it", async () => {
  const { code, out } = await interruptedWhen(({ out }) => /^ok +Postgres/m.test(out));
  expect(code).toBe(130);
  expect(out).not.toContain("FAIL Postgres");
});

test("while Postgres starts it ends with 130 without waiting until it is ready, and leaves no process", async () => {
  const data = join(folder, "postgres", "data");
  // Its server then waits ten minutes for what it is to recover.
  execFileSync("cp", ["-p", join(data, "PG_VERSION"), join(data, "recovery.signal")]);
  await appendFile(join(data, "postgresql.auto.conf"), "restore_command = 'sleep 600'\n");
  const waits = async () => (await leftOver()).some((command) => command.startsWith("sleep"));
  expect(await interruptedWhen(waits)).toEqual(stopped);
});
