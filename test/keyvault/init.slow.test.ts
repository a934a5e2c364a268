import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { migrate } from "../../keyvault/db/migrate.ts";
import { type InitStep, initialise } from "../../keyvault/init.ts";
import { serve } from "../../keyvault/serve.ts";
import { installToken } from "../../keyvault/token/install.ts";
import { createHome, SILENT, startVault, testClock, unfinishedTokens, type VaultHome } from "./fixture.ts";

let home: VaultHome;

afterEach(() => home.remove());

async function init(place = home): Promise<InitStep[]> {
  const steps: InitStep[] = [];
  await initialise(place.config, testClock(), SILENT, { report: (step) => steps.push(step) });
  return steps;
}

const made = (steps: InitStep[]) => Object.fromEntries(steps.map(({ step, created }) => [step, created]));
const NOTHING = { database: [], token: [], "service key": [], certificates: [] };

test("makes everything once, and a second time nothing", async () => {
  home = await createHome({ made: "empty" });
  expect(made(await init())).toEqual({
    database: [
      "0001_keys",
      "0002_audit",
      "0003_lifecycle",
      "0004_sequences",
      "0005_residents",
      "0006_roots",
      "0007_resident_records",
      "0008_audit_register",
      "0009_listed_certificates",
    ],
    token: ["kek-1", "audit-1"],
    "service key": ["service key"],
    certificates: ["ca", "server", "api", "admin"],
  });
  const before = await Promise.all(
    ["pin", "tls/ca.pem", "tls/api.key"].map((file) => readFile(join(home.config.dataDir, file))),
  );
  expect(made(await init())).toEqual(NOTHING);
  const after = await Promise.all(
    ["pin", "tls/ca.pem", "tls/api.key"].map((file) => readFile(join(home.config.dataDir, file))),
  );
  expect(after).toEqual(before);
});

test("secrets are for the owner only, and the PIN is 32 random bytes", async () => {
  home = await createHome({ made: "by init" });
  const { dataDir } = home.config;
  const mode = async (path: string) => (await stat(join(dataDir, path))).mode & 0o777;
  for (const folder of [".", "token", "token/objects", "tls"]) expect(await mode(folder), folder).toBe(0o700);
  for (const file of [
    "pin",
    "token/softhsm2.conf",
    "tls/ca.key",
    "tls/server.key",
    "tls/api.key",
    "tls/admin.key",
  ]) {
    expect(await mode(file), file).toBe(0o600);
  }
  expect(await readFile(join(dataDir, "pin"), "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
});

test("certificates are the authority's, each for its one use", async () => {
  home = await createHome({ made: "by init" });
  const read = async (name: string) =>
    new X509Certificate(await readFile(join(home.config.tlsDir, `${name}.pem`)));
  const authority = await read("ca");
  expect(authority.ca).toBe(true);
  for (const name of ["server", "api", "admin"]) {
    const certificate = await read(name);
    expect(certificate.verify(authority.publicKey)).toBe(true);
    expect(certificate.ca).toBe(false);
    expect(certificate.keyUsage).toEqual([name === "server" ? "1.3.6.1.5.5.7.3.1" : "1.3.6.1.5.5.7.3.2"]);
  }
  expect((await read("api")).subjectAltName).toBe("URI:deputize://role/api/api");
  expect((await read("admin")).subjectAltName).toBe("URI:deputize://role/admin/admin");
  expect((await read("server")).subjectAltName).toBe("DNS:localhost, IP Address:127.0.0.1");
});

test.each<[string, (home: VaultHome) => Promise<unknown>]>([
  ["after the PIN file", async ({ config }) => rm(config.token.dir, { recursive: true })],
  [
    "while the token was made",
    async ({ config }) => rename(config.token.dir, `${config.token.dir}.unfinished`),
  ],
])("a run that was cut off %s is completed by the next", async (_, cutOff) => {
  home = await createHome({ made: "by init" });
  await home.sql("drop schema public cascade; create schema public");
  await cutOff(home);
  const pin = await readFile(home.config.token.pinFile);
  expect(made(await init())).toMatchObject({ token: ["kek-1", "audit-1"], "service key": ["service key"] });
  expect(await readFile(home.config.token.pinFile), "the PIN is backed up by now").toEqual(pin);
  expect(await unfinishedTokens(home)).toEqual([]);
  const vault = await startVault(home);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "works" });
  await vault.stop();
});

/** What a run leaves that was cut off before it made the service key. */
async function withoutServiceKey(): Promise<void> {
  await home.sql("drop schema public cascade; create schema public");
  await rm(home.config.token.dir, { recursive: true });
  await installToken(home.config.token, SILENT);
}

test("a run that was cut off before the service key, or between certificates, is completed by the next", async () => {
  home = await createHome({ made: "by init" });
  await withoutServiceKey();
  for (const file of ["api.pem", "admin.pem", "admin.key"]) await rm(join(home.config.tlsDir, file));
  expect(made(await init())).toEqual({
    database: [
      "0001_keys",
      "0002_audit",
      "0003_lifecycle",
      "0004_sequences",
      "0005_residents",
      "0006_roots",
      "0007_resident_records",
      "0008_audit_register",
      "0009_listed_certificates",
    ],
    token: [],
    "service key": ["service key"],
    certificates: ["api", "admin"],
  });
});

test("a migration that was killed does not lock the vault out", async () => {
  home = await createHome({ made: "by init" });
  await home.sql("update schema_migrations_lock set is_locked = 1");
  expect(made(await init())).toEqual(NOTHING);
});

test("refuses an unfinished vault without its PIN file before it makes anything, and makes no new PIN", async () => {
  home = await createHome({ made: "by init" });
  await rm(home.config.token.pinFile);
  const unfinished = [
    "delete from keys; delete from tenants",
    "drop schema public cascade; create schema public",
  ];
  for (const change of unfinished) {
    await home.sql(change);
    const before = await home.sql("select tablename from pg_tables where schemaname = 'public' order by 1");
    await expect(init(), change).rejects.toThrow(/There is a token in .*, but its PIN file .* is gone/);
    expect(await home.sql("select tablename from pg_tables where schemaname = 'public' order by 1")).toEqual(
      before,
    );
  }
  expect(existsSync(home.config.token.pinFile)).toBe(false);
});

test("with the PIN file taken away it changes nothing, says so, completes the certificates, and the vault starts sealed", async () => {
  home = await createHome({ made: "by init" });
  const { pinFile } = home.config.token;
  await rename(pinFile, join(home.dir, "pin"));
  for (const file of ["admin.pem", "admin.key"]) await rm(join(home.config.tlsDir, file));
  expect(await init()).toEqual([
    { step: "database", created: [] },
    { step: "token", created: [], absent: ["pin"] },
    { step: "service key", created: [] },
    { step: "certificates", created: ["admin"] },
  ]);
  expect(existsSync(pinFile)).toBe(false);
  await rename(join(home.config.tlsDir, "ca.key"), join(home.dir, "ca.key"));
  const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, "init"], { env: home.environment });
  expect(stdout).toMatch(
    /^token +already there; the PIN file is elsewhere, so not tried; serve\s+starts sealed$/m,
  );
  const serving = await serve(home.config, testClock(), SILENT);
  expect(serving.token.sealed()).toBe("no_pin_file");
  await serving.stop();
  await rename(join(home.dir, "pin"), pinFile);
  expect(made(await init())).toEqual(NOTHING);
});

test("without PIN file and token it refuses, as without the token alone", async () => {
  home = await createHome({ made: "by init" });
  await rm(home.config.token.pinFile);
  await rm(home.config.token.dir, { recursive: true });
  await expect(init()).rejects.toThrow(/There is no token in .*: restore it/);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(existsSync(home.config.token.pinFile)).toBe(false);
});

test("refuses a database whose token is gone, and makes no new token", async () => {
  home = await createHome({ made: "by init" });
  await rm(home.config.token.dir, { recursive: true });
  await expect(init()).rejects.toThrow(/There is no token in .*: restore it/);
  await expect(serve(home.config, testClock(), SILENT)).rejects.toThrow(/There is no token in/);
  expect(existsSync(home.config.token.dir)).toBe(false);
});

test("makes neither PIN nor certificates when they come from elsewhere, and refuses a new vault without its PIN", async () => {
  home = await createHome({ made: "empty" });
  const { config } = home;
  const given = { makesPin: false, makesCertificates: false };
  await expect(initialise(config, testClock(), SILENT, given)).rejects.toThrow(
    `A new vault needs its PIN, and there is no file ${config.token.pinFile}`,
  );
  expect(existsSync(config.dataDir)).toBe(false);
  await mkdir(config.dataDir, { mode: 0o700 });
  await writeFile(config.token.pinFile, `${"7".repeat(64)}\n`, { mode: 0o600 });
  const steps: InitStep[] = [];
  const report = (step: InitStep) => void steps.push(step);
  await initialise(config, testClock(), SILENT, { report, ...given });
  expect(steps.map(({ step }) => step)).toEqual(["database", "token", "service key"]);
  expect(await readdir(config.dataDir)).toEqual(["pin", "token"]);
  await rm(config.token.pinFile);
  await initialise(config, testClock(), SILENT, given);
  expect(await readdir(config.dataDir)).toEqual(["token"]);
});

test("refuses another vault's token", async () => {
  home = await createHome({ made: "by init" });
  const other = await createHome({ made: "by init" });
  const { databaseUrl, migrationDatabaseUrl } = home.config;
  const mixed = { ...other.config, databaseUrl, migrationDatabaseUrl };
  const serving = await serve(mixed, testClock(), SILENT);
  expect(serving.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await serving.stop();
  await expect(initialise(mixed, testClock(), SILENT)).rejects.toThrow(/belongs to another token/);
  await other.remove();
});

test("refuses certificates that do not belong together, naming them", async () => {
  home = await createHome({ made: "by init" });
  const inTls = (file: string) => join(home.config.tlsDir, file);
  await rename(inTls("api.key"), inTls("api.kept"));
  await expect(init()).rejects.toThrow(/api\.pem exists without its key/);
  await writeFile(inTls("api.key"), await readFile(inTls("admin.key")));
  await expect(init()).rejects.toThrow(/api\.pem exists without its key/);
  await rename(inTls("api.kept"), inTls("api.key"));
  await rm(inTls("ca.pem"));
  await expect(init()).rejects.toThrow(/server\.pem was not issued by the authority/);
  expect(existsSync(inTls("ca.pem"))).toBe(false);
  await writeFile(inTls("ca.pem"), "not a certificate");
  await expect(init()).rejects.toThrow(/ca\.pem or its key is damaged/);
});

test("without the authority's key it changes nothing, says what is not there, and the vault runs", async () => {
  home = await createHome({ made: "by init" });
  const inTls = (file: string) => join(home.config.tlsDir, file);
  await rename(inTls("ca.key"), join(home.dir, "ca.key"));
  expect(made(await init())).toEqual(NOTHING);
  for (const file of ["admin.pem", "admin.key"]) await rm(inTls(file));
  const steps = await init();
  expect(steps.at(-1)).toEqual({ step: "certificates", created: [], absent: ["admin"] });
  expect((await readdir(home.config.tlsDir)).sort()).toEqual([
    "api.key",
    "api.pem",
    "ca.pem",
    "server.key",
    "server.pem",
  ]);
  await (await startVault(home)).stop();
  await rename(join(home.dir, "ca.key"), inTls("ca.key"));
  expect(made(await init())).toEqual({ ...NOTHING, certificates: ["admin"] });
});

test("refuses before it makes anything, when the vault's own certificate cannot be issued", async () => {
  home = await createHome({ made: "by init" });
  await home.sql("drop schema public cascade; create schema public");
  await rm(home.config.token.dir, { recursive: true });
  for (const file of ["ca.key", "server.pem", "server.key"]) await rm(join(home.config.tlsDir, file));
  await expect(init()).rejects.toThrow(/server\.pem is missing and ca\.key is not in/);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await home.sql("select from information_schema.tables where table_schema = 'public'")).toEqual([]);
});

test("a vault that was moved to another folder works there", async () => {
  home = await createHome({ made: "by init" });
  const moved = join(home.dir, "elsewhere");
  await rename(home.config.dataDir, moved);
  const there = { ...home, config: loadConfig({ ...home.environment, KEYVAULT_DATA_DIR: moved }) };
  const vault = await startVault(there);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "works" });
  await vault.stop();
});

test("a vault without tables, or without a service key, is not served", async () => {
  home = await createHome({ made: "by init" });
  await withoutServiceKey();
  const serving = () => serve(home.config, testClock(), SILENT);
  await expect(serving()).rejects.toThrow(/no tables of a vault: run "keyvault init"/);
  await migrate(home.config, SILENT);
  await expect(serving()).rejects.toThrow(/no service key: run "keyvault init"/);
});

test("a database that was emptied does not begin anew behind the back of the token, which has noted more", async () => {
  home = await createHome({ made: "by init" });
  await home.sql("drop schema public cascade; create schema public");
  await expect(init()).rejects.toThrow(/ends with record 0, and the token has noted 1/);
  const serving = await serve(home.config, testClock(), SILENT);
  expect(serving.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await serving.stop();
});

test("leaves nothing half-written in the data folder", async () => {
  home = await createHome({ made: "by init" });
  await mkdir(join(home.config.dataDir, "token.unfinished", "objects"), { recursive: true });
  await init();
  const names = await readdir(home.config.dataDir);
  expect(names.sort()).toEqual(["pin", "tls", "token", "token.unfinished"]);
});
