import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigError, loadConfig } from "../../keyvault/config.ts";

const good = { KEYVAULT_DATA_DIR: "/var/lib/keyvault", KEYVAULT_DATABASE_URL: "postgres://u:secret@h/d" };

test("needs the data folder and the database only, and listens on loopback by default", () => {
  const config = loadConfig(good);
  expect(config).toMatchObject({
    dataDir: "/var/lib/keyvault",
    listen: { host: "127.0.0.1", port: 8443 },
    health: undefined,
    token: {
      label: "deputize",
      pinFile: "/var/lib/keyvault/pin",
      dir: "/var/lib/keyvault/token",
      managed: true,
      environment: {},
    },
    tls: { caFile: "/var/lib/keyvault/tls/ca.pem" },
  });
});

test("names every setting that is missing or wrong, and never a value", () => {
  const failure = (environment: Record<string, string>) => {
    try {
      loadConfig(environment);
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      return (error as Error).message;
    }
    throw new Error("The settings were accepted");
  };
  expect(failure({})).toMatch(/KEYVAULT_DATA_DIR[\s\S]*KEYVAULT_DATABASE_URL/);
  const wrong = failure({
    ...good,
    KEYVAULT_DATABASE_URL: "mysql://u:hunter2@h",
    KEYVAULT_PORT: "66000",
    KEYVAULT_LOG_LEVEL: "loud",
  });
  expect(wrong).toMatch(/KEYVAULT_DATABASE_URL[\s\S]*KEYVAULT_PORT[\s\S]*KEYVAULT_LOG_LEVEL/);
  expect(wrong).not.toMatch(/hunter2/);
});

test("bounds how often keys are made for a tenant unless told not to, in whole keys a second", () => {
  const rate = (text?: string) =>
    loadConfig({ ...good, ...(text !== undefined && { KEYVAULT_CREATION_RATE_PER_TENANT: text }) })
      .creationRate;
  expect([rate(), rate("0"), rate("1"), rate("1000000")]).toEqual([25, 0, 1, 1_000_000]);
  for (const text of ["-1", "1000001", "0.5", "many"])
    expect(() => rate(text), text).toThrow(/KEYVAULT_CREATION_RATE_PER_TENANT/);
});

test("bounds how many keys a caller has made in a day unless told not to", () => {
  const perDay = (text?: string) =>
    loadConfig({ ...good, ...(text !== undefined && { KEYVAULT_CREATIONS_PER_DAY: text }) }).creationsPerDay;
  expect([perDay(), perDay("0"), perDay("100000000")]).toEqual([100_000, 0, 100_000_000]);
  for (const text of ["-1", "100000001", "0.5", "many"])
    expect(() => perDay(text), text).toThrow(/KEYVAULT_CREATIONS_PER_DAY/);
});

test("takes a token's label as modules have them, up to 32 characters", () => {
  const label = (text: string) =>
    loadConfig({ ...good, KEYVAULT_PKCS11_MODULE: "/m.so", KEYVAULT_TOKEN_LABEL: text }).token.label;
  for (const text of ["a", "NSS Certificate DB", "x".repeat(32)]) expect(label(text)).toBe(text);
  for (const text of ["", " ", " a", "a ", "x".repeat(33), "a\tb", "grün"])
    expect(() => label(text), text).toThrow(/KEYVAULT_TOKEN_LABEL/);
});

test("reads the database's URL from a file when told to", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-config-"));
  const file = join(dir, "url");
  await writeFile(file, "postgres://u@h/from-file\n");
  const { KEYVAULT_DATABASE_URL: _, ...rest } = good;
  expect(loadConfig({ ...rest, KEYVAULT_DATABASE_URL_FILE: file }).databaseUrl).toBe(
    "postgres://u@h/from-file",
  );
  expect(() => loadConfig({ ...rest, KEYVAULT_DATABASE_URL_FILE: `${file}.none` })).toThrow(ConfigError);
  expect(loadConfig({ ...good, KEYVAULT_MIGRATION_DATABASE_URL_FILE: file }).migrationDatabaseUrl).toBe(
    loadConfig({ ...rest, KEYVAULT_DATABASE_URL_FILE: file }).databaseUrl,
  );
  expect(() => loadConfig({ ...good, KEYVAULT_MIGRATION_DATABASE_URL_FILE: `${file}.none` })).toThrow(
    "KEYVAULT_MIGRATION_DATABASE_URL_FILE names a file that cannot be read",
  );
  await rm(dir, { recursive: true });
});

test("gives a vendor's module the variables that are named, and no others", () => {
  const config = loadConfig({
    ...good,
    KEYVAULT_PKCS11_MODULE: "/opt/vendor/libhsm.so",
    KEYVAULT_TOKEN_ENVIRONMENT: "HSM_CONF, HSM_NONE",
    HSM_CONF: "/etc/hsm",
    HSM_OTHER: "x",
  });
  expect(config.token.managed).toBe(false);
  expect(config.token.environment).toEqual({ HSM_CONF: "/etc/hsm" });
});
