import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { createLog } from "../../keyvault/log.ts";
import { type Serving, serve } from "../../keyvault/serve.ts";
import { agreeing } from "../support/clock.ts";
import { createHome, type VaultHome } from "./fixture.ts";

let home: VaultHome;
let serving: Serving | undefined;
let lines: { event?: string; level?: number; [name: string]: unknown }[];

beforeAll(async () => {
  home = await createHome();
});
beforeEach(() => {
  lines = [];
});
afterEach(async () => {
  await serving?.stop();
  serving = undefined;
  vi.restoreAllMocks();
});
afterAll(() => home.remove());

const log = pino({ level: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });
const start = async (settings: Record<string, string> = {}) => {
  serving = await serve(loadConfig({ ...home.environment, ...settings }), agreeing(), log);
  return serving;
};

async function occupied(): Promise<{ port: number; leave(): Promise<void> }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    leave: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Returns the token processes that this process has started. */
function tokenProcesses(): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ");
  return children.filter((pid) => {
    const path = `/proc/${pid}/cmdline`;
    return pid !== "" && existsSync(path) && readFileSync(path, "utf8").includes("/token/child");
  });
}

test.skipIf(!existsSync("/proc/self/task"))(
  "serve leaves no process, connection or port behind if any part of the vault cannot start",
  async () => {
    const taken = await occupied();
    const free = await occupied();
    await free.leave();
    const port = String(taken.port);
    const inUse = `_PORT: port ${port} of 127.0.0.1 is in use`;
    await expect(start({ KEYVAULT_PORT: port })).rejects.toThrow(`KEYVAULT${inUse}`);
    await expect(start({ KEYVAULT_PORT: String(free.port), KEYVAULT_HEALTH_PORT: port })).rejects.toThrow(
      `KEYVAULT_HEALTH${inUse}`,
    );
    await expect(start({ KEYVAULT_HOST: "192.0.2.1" })).rejects.toThrow(
      "KEYVAULT_HOST: 192.0.2.1 is not an address of this machine",
    );
    const cert = home.config.tls.certFile;
    await rename(cert, `${cert}.kept`);
    await expect(start()).rejects.toThrow(/server\.pem cannot be read/);
    await rename(`${cert}.kept`, cert);
    await expect.poll(tokenProcesses).toEqual([]);
    await taken.leave();
    await expect(once(connect(free.port, "127.0.0.1"), "connect")).rejects.toMatchObject({
      code: "ECONNREFUSED",
    });
  },
);

test("serve logs no warning for a vault without faults, and flush() syncs every file of the token", async () => {
  await rm(join(home.config.tlsDir, "ca.key"), { force: true });
  const { vault } = await start();
  expect(lines.filter(({ level = 0 }) => level > 30)).toEqual([]);
  const { dir } = home.config.token;
  const probe = await open(dir, "r");
  const handles = Object.getPrototypeOf(probe) as typeof probe;
  await probe.close();
  const { sync } = handles;
  const synced = new Set<number>();
  vi.spyOn(handles, "sync").mockImplementation(async function (this: typeof probe) {
    synced.add((await this.stat()).ino);
    return sync.call(this);
  });
  await vault().flush();
  for (const name of ["", ...(await readdir(dir, { recursive: true }))]) {
    expect(synced, name).toContain((await stat(join(dir, name))).ino);
  }
});

test("serve logs the record that breaks the audit chain and starts the vault sealed", async () => {
  await home.sql(
    "alter table audit disable trigger audit_append_only; update audit set caller = 'mallory' where seq = 1",
  );
  const { sealing } = await start();
  expect(sealing.state()).toMatchObject({ reason: "chain_broken" });
  expect(lines.filter(({ event }) => event === "chain_broken")).toEqual([
    expect.objectContaining({ level: 50, reason: expect.stringMatching(/record 1 /) }),
  ]);
});

test("the log skips lower levels and writes level, UTC time and part in each line", async () => {
  const written: string[] = [];
  const logger = createLog("warn");
  const stream = Object.getOwnPropertySymbols(logger).find(
    (symbol) => String(symbol) === "Symbol(pino.stream)",
  );
  Object.assign(logger, { [stream!]: { write: (line: string) => void written.push(line) } });
  logger.info({ event: "unheard" });
  logger.warn({ event: "sealed" });
  expect(written.map((line) => JSON.parse(line))).toEqual([
    {
      level: 40,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      part: "keyvault",
      event: "sealed",
    },
  ]);
});
