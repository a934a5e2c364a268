import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import {
  type Config,
  ConfigError,
  loadCertificateConfig,
  loadConfig,
  loadServerConfig,
} from "../../keyvault/config.ts";
import { createAuthority } from "../../keyvault/tls/authority.ts";

const good = { KEYVAULT_DATA_DIR: "/var/lib/keyvault", KEYVAULT_DATABASE_URL: "postgres://u:secret@h/d" };

/** A file that exists. Nothing loads it. */
const MODULE = process.execPath;

test("loadConfig names every setting that is missing or invalid, but never its value", () => {
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

const MANY = 1_000_000;

test.each<[string, least: number, most: number, read: (config: Config) => number | undefined]>([
  ["KEYVAULT_PORT", 0, 65_535, ({ listen }) => listen.port],
  ["KEYVAULT_HEALTH_PORT", 0, 65_535, ({ health }) => health?.port],
  ["KEYVAULT_AUDIT_HEADS_LOG_SECONDS", 1, 3_600, ({ auditHeadsLogSeconds }) => auditHeadsLogSeconds],
  ["KEYVAULT_KEYS_PER_TENANT", 0, MANY, ({ keysPerTenant }) => keysPerTenant],
  ["KEYVAULT_RATE_PER_KEY", 0, MANY, ({ signingRates }) => signingRates.perKey],
  ["KEYVAULT_RATE_PER_TENANT", 0, MANY, ({ signingRates }) => signingRates.perTenant],
  ["KEYVAULT_CREATION_RATE_PER_TENANT", 0, MANY, ({ creationRate }) => creationRate],
  ["KEYVAULT_CREATIONS_PER_DAY", 0, 100_000_000, ({ creationsPerDay }) => creationsPerDay],
  ["KEYVAULT_MAX_CONNECTIONS", 0, MANY, ({ connections }) => connections.most],
  ["KEYVAULT_HANDSHAKE_RATE", 0, MANY, ({ connections }) => connections.handshakeRate],
])("loadConfig accepts whole numbers for %s from %i to %i, and nothing else", (name, least, most, read) => {
  const given = (text: string) => read(loadConfig({ ...good, [name]: text }));
  for (const number of [least, least + 1, most]) expect(given(String(number))).toBe(number);
  for (const text of [least - 1, most + 1, 1.5, "many", ""]) expect(() => given(String(text))).toThrow(name);
});

test("loadConfig accepts only 0 and 1 for switches, and only Postgres URLs for databases", () => {
  for (const [name, ...refused] of [
    ["KEYVAULT_EXTERNAL_SUBJECTS", "2", "true", ""],
    ["KEYVAULT_EXIT_ON_STDIN_CLOSE", "2", "true", ""],
    ["KEYVAULT_DATABASE_URL", "mysql://h/d", ""],
    ["KEYVAULT_MIGRATION_DATABASE_URL", "mysql://h/d", ""],
  ] as const) {
    for (const text of refused) expect(() => loadConfig({ ...good, [name]: text }), text).toThrow(name);
  }
});

test("loadConfig accepts a token label of up to 32 characters, including inner spaces", () => {
  const label = (text: string) =>
    loadConfig({ ...good, KEYVAULT_PKCS11_MODULE: MODULE, KEYVAULT_TOKEN_LABEL: text }).token.label;
  for (const text of ["a", "NSS Certificate DB", "x".repeat(32)]) expect(label(text)).toBe(text);
  for (const text of ["", " ", " a", "a ", "x".repeat(33), "a\tb", "grün"]) {
    expect(() => label(text), text).toThrow(/KEYVAULT_TOKEN_LABEL/);
  }
});

test("loadConfig reads the database URL from a file if a setting names that file", async () => {
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
    "KEYVAULT_MIGRATION_DATABASE_URL_FILE: names a file that cannot be read",
  );
  await rm(dir, { recursive: true });
});

test("loadConfig passes only the named environment variables to a vendor's module", () => {
  const config = loadConfig({
    ...good,
    KEYVAULT_PKCS11_MODULE: MODULE,
    KEYVAULT_TOKEN_ENVIRONMENT: "HSM_CONF, HSM_NONE",
    HSM_CONF: "/etc/hsm",
    HSM_OTHER: "x",
  });
  expect(config.token.managed).toBe(false);
  expect(config.token.environment).toEqual({ HSM_CONF: "/etc/hsm" });
});

test("loadConfig uses the documented default for every missing setting", () => {
  expect(loadConfig({ ...good, KEYVAULT_PKCS11_MODULE: MODULE })).toEqual({
    dataDir: "/var/lib/keyvault",
    databaseUrl: good.KEYVAULT_DATABASE_URL,
    databasePoolSize: 7,
    migrationDatabaseUrl: good.KEYVAULT_DATABASE_URL,
    token: {
      module: MODULE,
      parameters: undefined,
      label: "deputize",
      pinFile: "/var/lib/keyvault/pin",
      pinTries: { file: "/var/lib/keyvault/pin_tries.json", key: expect.any(Uint8Array) },
      dir: "/var/lib/keyvault/token",
      managed: false,
      environment: {},
    },
    tls: {
      caFile: "/var/lib/keyvault/tls/ca.pem",
      certFile: "/var/lib/keyvault/tls/server.pem",
      keyFile: "/var/lib/keyvault/tls/server.key",
      revokedFile: "/var/lib/keyvault/tls/revoked",
      knownRevokedFile: "/var/lib/keyvault/known_revoked",
    },
    tlsDir: "/var/lib/keyvault/tls",
    serverNames: ["localhost", "127.0.0.1"],
    listen: { host: "127.0.0.1", port: 8443 },
    health: undefined,
    recoveryKeyFile: "/var/lib/keyvault/recovery.pub",
    auditHeadsFile: undefined,
    auditHeadsLogSeconds: 60,
    delegations: { ceiling: undefined, externalSubjects: false },
    signingRates: { perKey: 250, perTenant: 1_000 },
    creationRate: 25,
    creationsPerDay: 100_000,
    keysPerTenant: 10_000,
    connections: { most: 1_000, handshakeRate: 200 },
    logLevel: "info",
    exitOnStdinClose: false,
  });
  expect(loadConfig(good).token.managed, "with SoftHSM").toBe(true);
  expect(loadConfig({ ...good, KEYVAULT_HEALTH_PORT: "9000" }).health).toEqual({
    host: "127.0.0.1",
    port: 9_000,
  });
});

test("loadConfig uses every given setting, and resolves paths against the working directory", () => {
  const given = loadConfig({
    KEYVAULT_DATA_DIR: "data",
    KEYVAULT_DATABASE_URL: "postgresql://run@h/d",
    KEYVAULT_MIGRATION_DATABASE_URL: "postgres://own@h/d",
    KEYVAULT_PKCS11_MODULE: MODULE,
    KEYVAULT_PKCS11_PARAMETERS: "configdir='/nss'",
    KEYVAULT_TOKEN_DIR: "token-dir",
    KEYVAULT_PIN_FILE: "pin-file",
    KEYVAULT_HOST: "0.0.0.0",
    KEYVAULT_PORT: "0",
    KEYVAULT_SERVER_NAMES: "vault.internal, ::1,",
    KEYVAULT_TLS_CA_FILE: "ca",
    KEYVAULT_TLS_CERT_FILE: "cert",
    KEYVAULT_TLS_KEY_FILE: "key",
    KEYVAULT_TLS_REVOKED_FILE: "gone",
    KEYVAULT_HEALTH_HOST: "10.0.0.1",
    KEYVAULT_HEALTH_PORT: "65535",
    KEYVAULT_RECOVERY_KEY_FILE: "recovery",
    KEYVAULT_AUDIT_HEADS_FILE: "heads",
    KEYVAULT_AUDIT_HEADS_LOG_SECONDS: "3600",
    KEYVAULT_CEILING: "data:read,custom:*",
    KEYVAULT_EXTERNAL_SUBJECTS: "1",
    KEYVAULT_RATE_PER_KEY: "1",
    KEYVAULT_RATE_PER_TENANT: "2",
    KEYVAULT_KEYS_PER_TENANT: "3",
    KEYVAULT_CREATION_RATE_PER_TENANT: "6",
    KEYVAULT_CREATIONS_PER_DAY: "7",
    KEYVAULT_MAX_CONNECTIONS: "4",
    KEYVAULT_HANDSHAKE_RATE: "5",
    KEYVAULT_LOG_LEVEL: "silent",
    KEYVAULT_EXIT_ON_STDIN_CLOSE: "1",
  });
  expect(given).toMatchObject({
    dataDir: resolve("data"),
    databaseUrl: "postgresql://run@h/d",
    migrationDatabaseUrl: "postgres://own@h/d",
    token: { parameters: "configdir='/nss'", dir: resolve("token-dir"), pinFile: resolve("pin-file") },
    tls: {
      caFile: resolve("ca"),
      certFile: resolve("cert"),
      keyFile: resolve("key"),
      revokedFile: resolve("gone"),
      knownRevokedFile: resolve("data", "known_revoked"),
    },
    tlsDir: resolve("data", "tls"),
    serverNames: ["vault.internal", "::1"],
    listen: { host: "0.0.0.0", port: 0 },
    health: { host: "10.0.0.1", port: 65_535 },
    recoveryKeyFile: resolve("recovery"),
    auditHeadsFile: resolve("heads"),
    auditHeadsLogSeconds: 3_600,
    delegations: { ceiling: ["data:read", "custom:*"], externalSubjects: true },
    signingRates: { perKey: 1, perTenant: 2 },
    keysPerTenant: 3,
    creationRate: 6,
    creationsPerDay: 7,
    connections: { most: 4, handshakeRate: 5 },
    logLevel: "silent",
    exitOnStdinClose: true,
  });
});

test("loadConfig rejects a ceiling with an invalid scope", () => {
  for (const text of ["no scope", "data:read,,read all"]) {
    expect(() => loadConfig({ ...good, KEYVAULT_CEILING: text }), text).toThrow(
      "KEYVAULT_CEILING: holds a scope that is not valid",
    );
  }
  expect(loadConfig({ ...good, KEYVAULT_CEILING: "" }).delegations.ceiling).toEqual([]);
});

test("loadServerConfig requires an authority and a pair, but not of a new vault", async () => {
  const folder = await mkdtemp(join(tmpdir(), "keyvault-config-"));
  const validity = { notBefore: new Date(0), notAfter: new Date("2100-01-01") };
  const [own, other] = await Promise.all([createAuthority(validity), createAuthority(validity)]);
  const settings = { ...good, KEYVAULT_PKCS11_MODULE: MODULE, KEYVAULT_DATA_DIR: folder };
  const faults = (more: Record<string, string> = {}): string[] => {
    try {
      loadServerConfig({ ...settings, ...more });
      return [];
    } catch (error) {
      return (error as Error).message.split("\n").slice(1);
    }
  };
  const tls = join(folder, "tls");
  expect(faults()).toEqual([]);
  expect(faults({ KEYVAULT_TLS_CA_FILE: "/none" })).toHaveLength(3);
  await mkdir(tls);
  await writeFile(join(tls, "ca.pem"), own.certificate);
  await writeFile(join(tls, "server.pem"), own.certificate);
  const key = join(tls, "server.key");
  expect(faults()).toEqual([
    `  KEYVAULT_TLS_KEY_FILE: ${key} cannot be read: run "keyvault init", or put it back`,
  ]);
  await writeFile(key, other.privateKey);
  expect(faults()).toEqual([`  KEYVAULT_TLS_KEY_FILE: ${key} is not the key of ${join(tls, "server.pem")}`]);
  await writeFile(key, own.privateKey);
  expect(faults()).toEqual([]);
  await writeFile(join(tls, "ca.pem"), "none");
  expect(faults({ KEYVAULT_PORT: "x" })).toEqual([
    "  KEYVAULT_PORT: must be a whole number from 0 to 65535",
    `  KEYVAULT_TLS_CA_FILE: ${join(tls, "ca.pem")} is not a certificate in PEM`,
  ]);
  await rm(folder, { recursive: true });
});

test("loadConfig refuses a URL in a setting together with a URL in a file", () => {
  expect(() => loadConfig({ ...good, KEYVAULT_DATABASE_URL_FILE: "/none" })).toThrow(
    "KEYVAULT_DATABASE_URL_FILE: is set, and so is KEYVAULT_DATABASE_URL: set only one of them",
  );
});

test("loadCertificateConfig uses the given folder or the data folder, and the configured revocation list", () => {
  const folder = { tlsDir: "/keys", serverNames: ["localhost", "127.0.0.1"], revokedFile: "/keys/revoked" };
  expect(loadCertificateConfig("/keys", {})).toEqual(folder);
  expect(loadCertificateConfig("/keys", { KEYVAULT_DATA_DIR: "/data" })).toEqual(folder);
  expect(loadCertificateConfig(undefined, { KEYVAULT_DATA_DIR: "/data" })).toEqual({
    ...folder,
    tlsDir: "/data/tls",
    revokedFile: "/data/tls/revoked",
  });
  const own = { KEYVAULT_TLS_REVOKED_FILE: "/lists/gone", KEYVAULT_SERVER_NAMES: "vault" };
  expect(loadCertificateConfig("/keys", own)).toEqual({
    tlsDir: "/keys",
    serverNames: ["vault"],
    revokedFile: "/lists/gone",
  });
  expect(() => loadCertificateConfig(undefined, {})).toThrow("KEYVAULT_DATA_DIR: is missing");
});

test("the key of the notes about PINs depends on the database's URL and does not contain it", () => {
  const keyOf = (url: string) =>
    Buffer.from(loadConfig({ ...good, KEYVAULT_DATABASE_URL: url }).token.pinTries.key).toString("latin1");
  const [one, other] = [
    keyOf("postgres://vault:secret@db/vault"),
    keyOf("postgres://vault:secret2@db/vault"),
  ];
  expect(one).toHaveLength(32);
  expect(one).not.toBe(other);
  expect(one).not.toContain("secret");
  expect(keyOf("postgres://vault:secret@db/vault")).toBe(one);
});

test.each([
  ["postgres://u:secret@one:5432,two:5432/d", "names several hosts"],
  ["postgres://u:secret@one,two/d?target_session_attrs=read-write", "names several hosts"],
  ["postgres:///d?host=one,two", "names several hosts"],
  ["postgres://u:sec#ret@h/d", "percent-encoded"],
  ["postgres://u:secret@h/d?sslmode=prefer", "has an unsupported sslmode"],
  ["postgres://u:secret@h/d?options=-c%20datestyle%3DSQL", "has the unsupported parameter options"],
])("loadConfig refuses the database URL %s with one sentence", (KEYVAULT_DATABASE_URL, message) => {
  const load = () => loadConfig({ ...good, KEYVAULT_DATABASE_URL, KEYVAULT_PKCS11_MODULE: MODULE });
  expect(load).toThrow(new RegExp(`wrong:\\n  KEYVAULT_DATABASE_URL: [^\\n]*${message}[^\\n]*$`));
});
