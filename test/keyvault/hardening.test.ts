import fs, { existsSync, readFileSync } from "node:fs";
import { chmod, chown, mkdir, rename, stat, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { exposedFolders, NO_INSPECTOR, NODE_OPTIONS, warnOfExposure } from "../../keyvault/hardening.ts";
import { listeningPorts, portsAfterSigusr1 } from "../support/inspector.ts";
import { createHome, type VaultHome } from "./fixture.ts";
import { childrenOf, type ServedVault, serveProgram } from "./program.ts";

const hasProc = existsSync("/proc/self/limits");

let home: VaultHome;
let vault: ServedVault;

/** Starts the vault without any protection: unlimited core files and no Node options. */
beforeAll(async () => {
  home = await createHome();
  vault = await serveProgram(home, { before: "ulimit -c unlimited" });
});
afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});
afterAll(async () => {
  await vault?.kill();
  await home?.remove();
});

const processes = (): number[] => [vault.pid, childrenOf(vault.pid)[0] ?? 0];

function expectNoCoreFiles(): void {
  for (const pid of processes()) {
    expect(readFileSync(`/proc/${pid}/limits`, "utf8")).toMatch(/^Max core file size +0 +0 /m);
  }
  expect(vault.events).not.toContainEqual(expect.objectContaining({ event: "core_files_possible" }));
}

test.skipIf(!hasProc)(
  "the vault and its token process ignore SIGUSR1, write no core files and keep little garbage in memory",
  async () => {
    for (const pid of processes()) {
      const before = listeningPorts(pid);
      expect(await portsAfterSigusr1(pid)).toEqual(before);
      const options = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      expect(options).toEqual(expect.arrayContaining([...NODE_OPTIONS]));
    }
    expectNoCoreFiles();
    expect(vault.child.exitCode ?? vault.child.signalCode).toBeNull();
  },
);

test("the vault warns at each startup while the authority's key is in its folder", async () => {
  const file = join(home.config.tlsDir, "ca.key");
  expect(vault.events).toContainEqual(expect.objectContaining({ event: "authority_key_present", file }));
  expect(vault.events, "of its own user").toContainEqual(
    expect.objectContaining({ event: "memory_readable" }),
  );
  await vault.kill();
  await rename(file, join(home.dir, "kept-elsewhere"));
  vault = await serveProgram(home, { before: "ulimit -S -c 0", options: [NO_INSPECTOR] });
  expect(vault.events.map(({ event }) => event)).not.toContain("authority_key_present");
  if (hasProc) expectNoCoreFiles();
});

/** Returns the warnings of this process about a vault with these settings. */
function said(
  tlsDir: string,
  caFile: string,
  dataDir = home.config.dataDir,
): { event?: string; file?: string }[] {
  const told: object[] = [];
  const log = pino({}, { write: (line) => void told.push(JSON.parse(line)) });
  const { databaseUrl, ...config } = home.config;
  const tls = { ...config.tls, caFile };
  warnOfExposure({ ...config, dataDir, databaseUrl, migrationDatabaseUrl: databaseUrl, tlsDir, tls }, log);
  return told;
}

test("the vault warns once for each authority key, both in the certificate folder and next to the authority's file", async () => {
  const [own, other] = [join(home.dir, "own"), join(home.dir, "other")];
  for (const folder of [own, other]) {
    await mkdir(folder);
    await writeFile(join(folder, "ca.key"), "");
  }
  const named = (tlsDir: string, caFile: string) =>
    said(tlsDir, caFile)
      .filter(({ event }) => event === "authority_key_present")
      .map(({ file }) => file);
  const [inOwn, inOther] = [join(own, "ca.key"), join(other, "ca.key")];
  const none = join(home.dir, "none");
  expect(named(own, join(own, "ca.pem"))).toEqual([inOwn]);
  expect(named(own, join(none, "ca.pem"))).toEqual([inOwn]);
  expect(named(none, join(other, "ca.pem"))).toEqual([inOther]);
  expect(named(own, join(other, "ca.pem"))).toEqual([inOwn, inOther]);
  expect(named(none, join(none, "ca.pem"))).toEqual([]);
});

test("the vault warns about folders that are world-writable or belong to another user, unless these folders are sticky or belong to root", async () => {
  const folder = join(home.dir, "exposed");
  await mkdir(folder);
  const token = { ...home.config.token, pinFile: join(folder, "pin") };
  const exposed = () => exposedFolders({ dataDir: folder, tlsDir: join(folder, "none"), token });
  for (const [mode, expected] of [
    [0o700, []],
    [0o770, []],
    [0o702, [folder]],
    [0o1777, []],
  ] as const) {
    await chmod(folder, mode);
    expect(exposed(), mode.toString(8)).toEqual(expected);
  }
  await chmod(folder, 0o700);
  const { uid } = await stat(folder);
  const getuid = vi.spyOn(process, "getuid");
  try {
    getuid.mockReturnValue(uid + 1);
    expect(exposed()).toEqual(uid === 0 ? [] : [folder]);
  } finally {
    getuid.mockRestore();
  }
  if (uid === 0) {
    await chown(folder, 65_534, 65_534);
    expect(exposed()).toEqual([folder]);
    expect(said(join(home.dir, "none"), join(home.dir, "ca.pem"), folder)).toContainEqual(
      expect.objectContaining({ event: "folder_exposed", folder }),
    );
  }
});

test("the vault warns about core files and readable memory if the system does not report whether they are possible", () => {
  const hidden = (path: unknown): never => {
    throw new Error(`${path} is hidden`);
  };
  vi.spyOn(fs, "readFileSync").mockImplementation(hidden);
  vi.spyOn(fs, "statSync").mockImplementation(hidden);
  syncBuiltinESMExports();
  const events = said(home.dir, join(home.dir, "ca.pem")).map(({ event }) => event);
  expect(events).toEqual(["core_files_possible", "memory_readable"]);
});
