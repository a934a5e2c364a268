import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { until } from "../support/process.ts";

let template: string;
let folder: string;
let dataDir: string;
const starting: { interrupt(): void; ended: Promise<unknown> }[] = [];

beforeAll(async () => {
  template = await mkdtemp(join(tmpdir(), "deputize-interrupted-"));
  await (await startPostgres({ dataDir: join(template, "postgres") })).stop();
});

afterAll(() => rm(template, { recursive: true, force: true }));

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

/** `ended` resolves to the error, or to "started" when the server has started and stopped again. */
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

async function useTemplate(): Promise<void> {
  await promisify(execFile)("cp", ["-a", `${template}/.`, folder]);
}

/** Copies data with a setting that delays the server's readiness by ten minutes. */
async function useSlow(): Promise<void> {
  await useTemplate();
  await promisify(execFile)("cp", ["-p", join(dataDir, "PG_VERSION"), join(dataDir, "recovery.signal")]);
}
const slow = { restore_command: "sleep 600" };

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

describe("an interrupted start of Postgres", () => {
  test("creates nothing if the interruption came before the start", async () => {
    const controller = new AbortController();
    controller.abort(new Error("interrupted"));
    await expect(startPostgres({ dataDir, signal: controller.signal })).rejects.toThrow("interrupted");
    expect(await readdir(folder)).toEqual([]);
  });

  test.each(["base", "global/pg_control", "PG_VERSION"])(
    "leaves no process or partial folder if initdb was writing %s, and the next start succeeds",
    async (name) => {
      const { interrupt, ended } = begin();
      const path = `${dataDir}.partial-${process.pid}`;
      await until("initdb is writing the folder", () => isThere(join(path, name)));
      interrupt();
      expect(await ended).toEqual(new Error("interrupted"));
      await until("no process uses the folder", async () => (await atWork()).length === 0);
      expect(await readdir(folder)).toEqual(["postgres.password"]);
      expect(await begin().ended).toBe("started");
    },
    60_000,
  );

  test("stops a server that is not yet ready, and the next start succeeds", async () => {
    await useSlow();
    const { interrupt, ended } = begin(slow);
    await until("the server waits", async () =>
      (await atWork()).some((command) => command.includes("sleep")),
    );
    interrupt();
    expect(await ended).toEqual(new Error("interrupted"));
    await until("no process uses the folder", async () => (await atWork()).length === 0);
    expect(await isThere(join(dataDir, "postmaster.pid"))).toBe(false);
    await rm(join(dataDir, "recovery.signal"));
    expect(await begin().ended).toBe("started");
  }, 60_000);

  test.each([0, 1, 3, 10])(
    "leaves no server process if the interruption comes %i ms after that process started",
    async (ms) => {
      await useTemplate();
      const { ended } = begin({}, (interrupt) => void setTimeout(interrupt, ms));
      expect(await ended).toEqual(new Error("interrupted"));
      await until("no process uses the folder", async () => (await atWork()).length === 0);
      expect(await isThere(join(dataDir, "postmaster.pid"))).toBe(false);
    },
  );

  test("stops waiting for a different server that uses the folder, and leaves that server running", async () => {
    await useSlow();
    const other = begin(slow);
    await until("the first server uses the folder", () => isThere(join(dataDir, "postmaster.pid")));
    const { interrupt, ended } = begin();
    await until("the second server was refused", async () => (await logged()).includes("already exists"));
    interrupt();
    expect(await ended).toEqual(new Error("interrupted"));
    await until("the first server keeps running", async () =>
      (await atWork()).some((command) => command.includes("sleep")),
    );
    other.interrupt();
    expect(await other.ended).toEqual(new Error("interrupted"));
  }, 60_000);
});
