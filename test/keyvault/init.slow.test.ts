import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { migrate, migrationNames } from "../../keyvault/db/migrate.ts";
import { type InitOptions, type InitStep, initialize } from "../../keyvault/init.ts";
import { serve } from "../../keyvault/serve.ts";
import { installToken } from "../../keyvault/token/install.ts";
import { createHome, SILENT, startVault, testClock, unfinishedTokens, type VaultHome } from "./fixture.ts";
import { runProgram } from "./program.ts";

let home: VaultHome;

afterEach(() => home.remove());

async function init(options: InitOptions = {}): Promise<InitStep[]> {
  const steps: InitStep[] = [];
  const report = (step: InitStep) => void steps.push(step);
  await initialize(home.config, testClock(), SILENT, { report, ...options });
  return steps;
}

const inTls = (file: string) => join(home.config.tlsDir, file);
const inData = (file: string) => join(home.config.dataDir, file);
const dropSchema = () => home.sql("drop schema public cascade; create schema public");
const started = () => serve(home.config, testClock(), SILENT);
async function removePairs(...names: string[]): Promise<void> {
  const files = names.flatMap((name) => [`${name}.pem`, `${name}.key`]);
  for (const file of files) await rm(inTls(file), { force: true });
}
const made = (steps: InitStep[]) => Object.fromEntries(steps.map(({ step, created }) => [step, created]));
const NOTHING = { database: [], token: [], "service key": [], certificates: [] };

test("keyvault init creates everything in the first run, and nothing in the second", async () => {
  home = await createHome({ made: "empty" });
  expect(made(await init())).toEqual({
    database: migrationNames(),
    token: ["kek-1", "audit-1"],
    "service key": ["service key"],
    certificates: ["ca", "server", "api", "admin"],
  });
  const read = () => Promise.all(["pin", "tls/ca.pem", "tls/api.key"].map((file) => readFile(inData(file))));
  const before = await read();
  await home.sql("update schema_migrations_lock set is_locked = 1");
  expect(made(await init()), "after a migration that was killed").toEqual(NOTHING);
  expect(await read()).toEqual(before);
});

test("keyvault init protects secrets by file mode, creates a PIN of 32 random bytes, and issues a certificate per purpose", async () => {
  home = await createHome({ made: "by init" });
  const mode = async (path: string) => (await stat(inData(path))).mode & 0o777;
  for (const folder of [".", "token", "token/objects", "tls"]) expect(await mode(folder), folder).toBe(0o700);
  const keys = ["ca", "server", "api", "admin"].map((name) => `tls/${name}.key`);
  for (const file of ["pin", "token/softhsm2.conf", ...keys]) expect(await mode(file), file).toBe(0o600);
  expect(await readFile(inData("pin"), "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
  const read = async (name: string) => new X509Certificate(await readFile(inTls(`${name}.pem`)));
  const authority = await read("ca");
  expect(authority.ca).toBe(true);
  const uses = { server: "1.3.6.1.5.5.7.3.1", api: "1.3.6.1.5.5.7.3.2", admin: "1.3.6.1.5.5.7.3.2" };
  for (const [name, use] of Object.entries(uses)) {
    const certificate = await read(name);
    expect(certificate.verify(authority.publicKey)).toBe(true);
    expect(certificate.ca).toBe(false);
    expect(certificate.keyUsage).toEqual([use]);
  }
  expect((await read("api")).subjectAltName).toBe("URI:deputize://role/api/api");
  expect((await read("admin")).subjectAltName).toBe("URI:deputize://role/admin/admin");
  expect((await read("server")).subjectAltName).toBe("DNS:localhost, IP Address:127.0.0.1");
});

test.each<[string, (home: VaultHome) => Promise<unknown>]>([
  ["after the PIN file", async ({ config }) => rm(config.token.dir, { recursive: true })],
  [
    "while the token was being created",
    async ({ config }) => rename(config.token.dir, `${config.token.dir}.unfinished`),
  ],
])("keyvault init completes a run that was interrupted %s", async (_, cutOff) => {
  home = await createHome();
  await dropSchema();
  await cutOff(home);
  const pin = await readFile(home.config.token.pinFile);
  expect(made(await init())).toMatchObject({ token: ["kek-1", "audit-1"], "service key": ["service key"] });
  expect(await readFile(home.config.token.pinFile), "the PIN is backed up by now").toEqual(pin);
  expect(await unfinishedTokens(home)).toEqual([]);
  const vault = await startVault(home);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "works" });
  await vault.stop();
});

/** Removes everything that a run would not have created if it had stopped before the service key. */
async function withoutServiceKey(): Promise<void> {
  await dropSchema();
  await rm(home.config.token.dir, { recursive: true });
  await installToken(home.config.token, SILENT);
}

test("keyvault init completes a run that was interrupted before the service key was created or between certificates", async () => {
  home = await createHome();
  await withoutServiceKey();
  await rm(inTls("api.pem"));
  await removePairs("admin");
  expect(made(await init())).toEqual({
    database: migrationNames(),
    token: [],
    "service key": ["service key"],
    certificates: ["api", "admin"],
  });
});

test("keyvault init rejects an unfinished vault whose PIN file is missing, before it creates anything", async () => {
  home = await createHome();
  await rm(home.config.token.pinFile);
  const unfinished = [
    "delete from keys; delete from tenants",
    "drop schema public cascade; create schema public",
  ];
  for (const change of unfinished) {
    await home.sql(change);
    const before = await home.sql("select tablename from pg_tables where schemaname = 'public' order by 1");
    await expect(init(), change).rejects.toThrow(/There is a token in .*, but its PIN file .* is missing/);
    expect(await home.sql("select tablename from pg_tables where schemaname = 'public' order by 1")).toEqual(
      before,
    );
  }
  expect(existsSync(home.config.token.pinFile)).toBe(false);
});

test("keyvault init without the PIN file creates only missing certificates, reports this, and the vault starts sealed", async () => {
  home = await createHome();
  const { pinFile } = home.config.token;
  await rename(pinFile, join(home.dir, "pin"));
  await removePairs("admin");
  expect(await init()).toEqual([
    { step: "database", created: [] },
    { step: "token", created: [], absent: ["pin"] },
    { step: "service key", created: [] },
    { step: "certificates", created: ["admin"] },
  ]);
  expect(existsSync(pinFile)).toBe(false);
  await rename(inTls("ca.key"), join(home.dir, "ca.key"));
  expect((await runProgram(home, ["init"])).output).toMatch(
    /^token +already there; not opened, because the PIN file is elsewhere;\s+serve\s+starts sealed$/m,
  );
  const serving = await started();
  expect(serving.token.sealed()).toBe("no_pin_file");
  await serving.stop();
  await rename(join(home.dir, "pin"), pinFile);
  expect(made(await init())).toEqual(NOTHING);
});

test("keyvault init rejects a vault that has neither PIN file nor token", async () => {
  home = await createHome();
  await rm(home.config.token.pinFile);
  await rm(home.config.token.dir, { recursive: true });
  await expect(init()).rejects.toThrow(/There is no token in .*: restore it/);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(existsSync(home.config.token.pinFile)).toBe(false);
});

test("keyvault init rejects a database whose token is missing", async () => {
  home = await createHome();
  await rm(home.config.token.dir, { recursive: true });
  await expect(init()).rejects.toThrow(/There is no token in .*: restore it/);
  await expect(started()).rejects.toThrow(/There is no token in/);
  expect(existsSync(home.config.token.dir)).toBe(false);
});

test("keyvault init can skip PIN and certificates, and then rejects a new vault without a PIN file", async () => {
  home = await createHome({ made: "empty" });
  const { config } = home;
  const given = { makesPin: false, makesCertificates: false };
  await expect(init(given)).rejects.toThrow(
    `A new vault needs its PIN, and there is no file ${config.token.pinFile}`,
  );
  expect(existsSync(config.dataDir)).toBe(false);
  await mkdir(config.dataDir, { mode: 0o700 });
  await writeFile(config.token.pinFile, `${"7".repeat(64)}\n`, { mode: 0o600 });
  expect((await init(given)).map(({ step }) => step)).toEqual(["database", "token", "service key"]);
  expect(await readdir(config.dataDir)).toEqual(["pin", "pin_tries.json", "token"]);
  await rm(config.token.pinFile);
  await init(given);
  expect(await readdir(config.dataDir)).toEqual(["pin_tries.json", "token"]);
});

test("keyvault init rejects the token of another vault", async () => {
  home = await createHome();
  const other = await createHome({ made: "by init" });
  const { databaseUrl, migrationDatabaseUrl } = home.config;
  const mixed = { ...other.config, databaseUrl, migrationDatabaseUrl };
  const serving = await serve(mixed, testClock(), SILENT);
  expect(serving.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await serving.stop();
  await expect(initialize(mixed, testClock(), SILENT)).rejects.toThrow(/belongs to another token/);
  await other.remove();
});

test("keyvault init rejects certificates that do not belong together and names the file", async () => {
  home = await createHome();
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

test("without the authority's key, keyvault init changes nothing and reports missing certificates, and the vault runs", async () => {
  home = await createHome();
  await rename(inTls("ca.key"), join(home.dir, "ca.key"));
  expect(made(await init())).toEqual(NOTHING);
  await removePairs("admin");
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

test("keyvault init creates nothing if it cannot issue the vault's own certificate", async () => {
  home = await createHome();
  await dropSchema();
  await rm(home.config.token.dir, { recursive: true });
  await rm(inTls("ca.key"));
  await removePairs("server");
  await expect(init()).rejects.toThrow(/server\.pem is missing and ca\.key is not in/);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await home.sql("select from information_schema.tables where table_schema = 'public'")).toEqual([]);
});

test("a vault works after its data folder was moved", async () => {
  home = await createHome();
  const moved = join(home.dir, "elsewhere");
  await rename(home.config.dataDir, moved);
  const there = { ...home, config: loadConfig({ ...home.environment, KEYVAULT_DATA_DIR: moved }) };
  const vault = await startVault(there);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "works" });
  await vault.stop();
});

test("keyvault serve rejects a vault without tables or without a service key", async () => {
  home = await createHome();
  await withoutServiceKey();
  await expect(started()).rejects.toThrow(/no tables of a vault: run "keyvault init"/);
  await migrate(home.config, SILENT);
  await expect(started()).rejects.toThrow(/no service key: run "keyvault init"/);
});

test("keyvault init rejects an emptied database if the token has noted records", async () => {
  home = await createHome();
  await dropSchema();
  await expect(init()).rejects.toThrow(/ends with record 0, and the token has noted 1/);
  const serving = await started();
  expect(serving.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await serving.stop();
});

test("keyvault init leaves no unfinished files in the data folder", async () => {
  home = await createHome();
  await mkdir(join(home.config.dataDir, "token.unfinished", "objects"), { recursive: true });
  await init();
  const names = await readdir(home.config.dataDir);
  expect(names.sort()).toEqual(["pin", "pin_tries.json", "tls", "token", "token.unfinished"]);
});
