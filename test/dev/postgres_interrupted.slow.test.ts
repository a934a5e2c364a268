import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { until } from "../support/process.ts";

let made: string;
let folder: string;
let dataDir: string;
const starting: { interrupt(): void; ended: Promise<unknown> }[] = [];

beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), "deputize-interrupted-"));
  await (await startPostgres({ dataDir: join(made, "postgres") })).stop();
});

afterAll(() => rm(made, { recursive: true, force: true }));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-interrupted-"));
  dataDir = join(folder, "postgres");
});

afterEach(async () => {
  for (const { interrupt, ended } of starting.splice(0)) {
    interrupt();
    await ended;
  }
  await rm(folder, { recursive: true, force: true });
});

/** Begins a start; `ended` is what it was rejected with, or the server, which is stopped. */
function begin(settings: Record<string, string> = {}, spawned = (_interrupt: () => void) => {}) {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new Error("interrupted"));
  const options = { dataDir, settings, signal: controller.signal, spawned: () => spawned(interrupt) };
  const ended = startPostgres(options).then(
    async (server) => {
      await server.stop();
      return "started";
    },
    (error: unknown) => error,
  );
  const start = { interrupt, ended };
  starting.push(start);
  return start;
}

/** Puts a stopped server's data where a test's own is expected. */
async function useMade(): Promise<void> {
  await promisify(execFile)("cp", ["-a", `${made}/.`, folder]);
}

/** Such data whose server would wait for ten minutes before it is ready. */
async function useSlow(): Promise<void> {
  await useMade();
  await promisify(execFile)("cp", ["-p", join(dataDir, "PG_VERSION"), join(dataDir, "recovery.signal")]);
}
const slow = { restore_command: "sleep 600" };

/** Processes that work in the folder. */
async function atWork(): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    if (cwd.startsWith(folder)) found.push(await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => pid));
  }
  return found;
}

const logged = () => readFile(`${dataDir}.log`, "utf8").catch(() => "");
const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

describe("a start that is interrupted", () => {
  test("before it began does nothing", async () => {
    const controller = new AbortController();
    controller.abort(new Error("interrupted"));
    await expect(startPostgres({ dataDir, signal: controller.signal })).rejects.toThrow("interrupted");
    expect(await readdir(folder)).toEqual([]);
  });

  test.each(["base", "global/pg_control", "PG_VERSION"])(
    "while the folder is being made, at %s, leaves neither process nor half a folder, and the next one makes it",
    async (name) => {
      const { interrupt, ended } = begin();
      const path = `${dataDir}.partial-${process.pid}`;
      await until("the folder is being made", () => isThere(join(path, name)));
      interrupt();
      expect(await ended).toEqual(new Error("interrupted"));
      await until("nothing works in the folder", async () => (await atWork()).length === 0);
      expect(await readdir(folder)).toEqual(["postgres.password"]);
      expect(await begin().ended).toBe("started");
    },
    60_000,
  );

  test("while the server starts does not wait until it is ready, leaves no process, and the next one starts", async () => {
    await useSlow();
    const { interrupt, ended } = begin(slow);
    await until("the server waits", async () =>
      (await atWork()).some((command) => command.includes("sleep")),
    );
    interrupt();
    expect(await ended).toEqual(new Error("interrupted"));
    await until("nothing works in the folder", async () => (await atWork()).length === 0);
    expect(await isThere(join(dataDir, "postmaster.pid"))).toBe(false);
    await rm(join(dataDir, "recovery.signal"));
    expect(await begin().ended).toBe("started");
  }, 60_000);

  test.each([0, 1, 3, 10])("%i ms after the server's process began leaves none", async (ms) => {
    await useMade();
    const { ended } = begin({}, (interrupt) => void setTimeout(interrupt, ms));
    expect(await ended).toEqual(new Error("interrupted"));
    await until("nothing works in the folder", async () => (await atWork()).length === 0);
    expect(await isThere(join(dataDir, "postmaster.pid"))).toBe(false);
  });

  test("while another server holds the folder does not wait for it, and leaves that one alone", async () => {
    await useSlow();
    const other = begin(slow);
    await until("it holds the folder", () => isThere(join(dataDir, "postmaster.pid")));
    const { interrupt, ended } = begin();
    await until("the second was refused", async () => (await logged()).includes("already exists"));
    interrupt();
    expect(await ended).toEqual(new Error("interrupted"));
    await until("the first goes on", async () =>
      (await atWork()).some((command) => command.includes("sleep")),
    );
    other.interrupt();
    expect(await other.ended).toEqual(new Error("interrupted"));
  }, 60_000);
});
