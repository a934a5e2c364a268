import { createHmac } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import type { Rate } from "./rates.ts";
import { type Fault, tlsFaults } from "./settings/faults.ts";
import { type Environment, readSettings } from "./settings/read.ts";
import * as type from "./settings/types.ts";
import { findSoftHsm } from "./token/softhsm.ts";

export { ConfigError } from "./settings/read.ts";

/** All settings of the vault. */
export const settingSchema = z.object({
  KEYVAULT_DATA_DIR: type.folder,
  KEYVAULT_DATABASE_URL: type.databaseUrl,
  KEYVAULT_MIGRATION_DATABASE_URL: type.databaseUrl.optional(),
  KEYVAULT_DATABASE_POOL_SIZE: type.wholeNumber(4, 100).default(7),
  KEYVAULT_PKCS11_MODULE: type.library.optional(),
  KEYVAULT_PKCS11_PARAMETERS: type.line.optional(),
  KEYVAULT_TOKEN_LABEL: type.label.default("deputize"),
  KEYVAULT_TOKEN_DIR: type.folder.optional(),
  KEYVAULT_TOKEN_ENVIRONMENT: type.variables.default([]),
  KEYVAULT_PIN_FILE: type.file.optional(),
  KEYVAULT_HOST: type.host.default("127.0.0.1"),
  KEYVAULT_PORT: type.port.default(8443),
  KEYVAULT_SERVER_NAMES: type.hosts.default(["localhost", "127.0.0.1"]),
  KEYVAULT_TLS_CA_FILE: type.file.optional(),
  KEYVAULT_TLS_CERT_FILE: type.file.optional(),
  KEYVAULT_TLS_KEY_FILE: type.file.optional(),
  KEYVAULT_TLS_REVOKED_FILE: type.file.optional(),
  KEYVAULT_HEALTH_HOST: type.host.default("127.0.0.1"),
  KEYVAULT_HEALTH_PORT: type.port.optional(),
  KEYVAULT_RECOVERY_KEY_FILE: type.file.optional(),
  KEYVAULT_AUDIT_HEADS_FILE: type.file.optional(),
  KEYVAULT_AUDIT_HEADS_LOG_SECONDS: type.wholeNumber(1, 3_600).default(60),
  KEYVAULT_CEILING: type.scopes.optional(),
  KEYVAULT_EXTERNAL_SUBJECTS: type.flag,
  KEYVAULT_KEYS_PER_TENANT: type.count.default(10_000),
  KEYVAULT_RATE_PER_KEY: type.count.default(250),
  KEYVAULT_RATE_PER_TENANT: type.count.default(1_000),
  KEYVAULT_CREATION_RATE_PER_TENANT: type.count.default(25),
  KEYVAULT_CREATIONS_PER_DAY: type.wholeNumber(0, 100_000_000).default(100_000),
  KEYVAULT_MAX_CONNECTIONS: type.count.default(1_000),
  KEYVAULT_HANDSHAKE_RATE: type.count.default(200),
  KEYVAULT_LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  KEYVAULT_EXIT_ON_STDIN_CLOSE: type.flag,
});

/**
 * Maximum number of concurrent connections from all addresses, and of handshakes per second from one address.
 * 0 means no limit.
 */
export type ConnectionLimits = { most: number; handshakeRate: number };

/** Limits that the vault's operator sets. Callers cannot change them. */
export type DelegationPolicy = {
  /** Scopes that may be delegated. `undefined` means no limit. */
  ceiling: readonly string[] | undefined;
  /** True if the vault may delegate to a key that it does not store. */
  externalSubjects: boolean;
};

/** Signatures per second allowed for one key, and for all keys of one tenant together. */
export type SigningRates = { perKey: Rate; perTenant: Rate };

/**
 * Location of the token, and options of its PKCS#11 module. A `managed` token is a SoftHSM token that the
 * vault itself creates.
 */
export type TokenConfig = {
  module: string;
  /** Initialization parameters for the module, if it needs any. */
  parameters: string | undefined;
  label: string;
  pinFile: string;
  /** The vault's notes about tries of a PIN, and a key for their hashes that is in no file beside them. */
  pinTries: { file: string; key: Uint8Array };
  dir: string;
  managed: boolean;
  /** Environment variables of the child process, which gets no others. A vendor's module may need some. */
  environment: Readonly<Record<string, string>>;
};

/**
 * Files of the vault's TLS server, the list of revoked certificates, and the file in which the vault stores
 * all serial numbers that were ever on the list.
 */
export type TlsConfig = {
  caFile: string;
  certFile: string;
  keyFile: string;
  revokedFile: string;
  knownRevokedFile: string;
};

/** All settings of the process. All paths are absolute. */
export type Config = {
  dataDir: string;
  databaseUrl: string;
  /** The most connections to the database that the running vault holds. */
  databasePoolSize: number;
  /**
   * URL of the same database as `databaseUrl`, but for the role that owns the tables. The URLs may be equal.
   */
  migrationDatabaseUrl: string;
  token: TokenConfig;
  tls: TlsConfig;
  tlsDir: string;
  serverNames: readonly string[];
  listen: { host: string; port: number };
  /** Plain HTTP listener for probes. `undefined` unless a port is set. */
  health: { host: string; port: number } | undefined;
  /** File with the public key that backups are encrypted to. */
  recoveryKeyFile: string;
  /** File that receives heads of the audit chain in addition to the log. */
  auditHeadsFile: string | undefined;
  auditHeadsLogSeconds: number;
  delegations: DelegationPolicy;
  signingRates: SigningRates;
  /** Keys per second that one caller may create for one tenant. */
  creationRate: Rate;
  /** Keys per day that one caller may create for all tenants together. 0 means no limit. */
  creationsPerDay: number;
  /** Maximum number of keys per tenant. Destroyed keys do not count. 0 means no limit. */
  keysPerTenant: number;
  connections: ConnectionLimits;
  logLevel: string;
  exitOnStdinClose: boolean;
};

/** Settings of the commands that issue and revoke certificates. */
export type CertificateConfig = Pick<Config, "tlsDir" | "serverNames"> & { revokedFile: string };

/**
 * Reads the settings from the environment. `<name>_FILE` may name a file with the URL of a database. Throws
 * one `ConfigError` with all faults: missing and wrong values, unreadable files, and misspelled names.
 */
export function loadConfig(environment: Environment = process.env): Config {
  return readConfig(environment, () => []);
}

/**
 * Like {@link loadConfig}, and also requires the TLS files of a server: an authority, and a pair. Accepts a
 * new vault without these files, which `serve` refuses with a message about its token.
 */
export function loadServerConfig(environment: Environment = process.env): Config {
  return readConfig(environment, (settings) => {
    const file = (setting: TlsSetting, standard: string) => {
      const { [setting]: given, KEYVAULT_DATA_DIR: dataDir = "" } = settings;
      return { name: setting, path: resolve(given ?? join(dataDir, "tls", standard)) };
    };
    if (settings.KEYVAULT_DATA_DIR === undefined) return [];
    const files = {
      ca: file("KEYVAULT_TLS_CA_FILE", "ca.pem"),
      cert: file("KEYVAULT_TLS_CERT_FILE", "server.pem"),
      key: file("KEYVAULT_TLS_KEY_FILE", "server.key"),
    };
    const all = Object.values(files);
    const isNew = all.every(({ name, path }) => settings[name] === undefined && !existsSync(path));
    return isNew ? [] : tlsFaults(files);
  });
}

/** Also a command that needs few settings reports misspelled names of the others. */
const NAMES = Object.keys(settingSchema.shape);

type Settings = z.infer<typeof settingSchema>;
type TlsSetting = "KEYVAULT_TLS_CA_FILE" | "KEYVAULT_TLS_CERT_FILE" | "KEYVAULT_TLS_KEY_FILE";

function readConfig(environment: Environment, check: (settings: Partial<Settings>) => Fault[]): Config {
  const settings = readSettings(settingSchema, environment, {
    names: NAMES,
    check: (found) => [
      ...(found.KEYVAULT_PKCS11_MODULE === undefined && findSoftHsm() === undefined ? [NO_MODULE] : []),
      ...check(found),
    ],
  });
  const dataDir = resolve(settings.KEYVAULT_DATA_DIR);
  const inData = (given: string | undefined, ...name: string[]): string =>
    given === undefined ? join(dataDir, ...name) : resolve(given);
  const module = settings.KEYVAULT_PKCS11_MODULE ?? findSoftHsm() ?? "";
  return {
    dataDir,
    databaseUrl: settings.KEYVAULT_DATABASE_URL,
    databasePoolSize: settings.KEYVAULT_DATABASE_POOL_SIZE,
    migrationDatabaseUrl: settings.KEYVAULT_MIGRATION_DATABASE_URL ?? settings.KEYVAULT_DATABASE_URL,
    token: {
      module,
      parameters: settings.KEYVAULT_PKCS11_PARAMETERS,
      label: settings.KEYVAULT_TOKEN_LABEL,
      pinFile: inData(settings.KEYVAULT_PIN_FILE, "pin"),
      pinTries: {
        file: join(dataDir, "pin_tries.json"),
        key: createHmac("sha256", settings.KEYVAULT_DATABASE_URL).update("deputize keyvault pin 1").digest(),
      },
      dir: inData(settings.KEYVAULT_TOKEN_DIR, "token"),
      managed: basename(module).startsWith("libsofthsm2"),
      environment: pick(environment, settings.KEYVAULT_TOKEN_ENVIRONMENT),
    },
    tls: {
      caFile: inData(settings.KEYVAULT_TLS_CA_FILE, "tls", "ca.pem"),
      certFile: inData(settings.KEYVAULT_TLS_CERT_FILE, "tls", "server.pem"),
      keyFile: inData(settings.KEYVAULT_TLS_KEY_FILE, "tls", "server.key"),
      revokedFile: inData(settings.KEYVAULT_TLS_REVOKED_FILE, "tls", "revoked"),
      knownRevokedFile: join(dataDir, "known_revoked"),
    },
    tlsDir: join(dataDir, "tls"),
    serverNames: settings.KEYVAULT_SERVER_NAMES,
    listen: { host: settings.KEYVAULT_HOST, port: settings.KEYVAULT_PORT },
    health:
      settings.KEYVAULT_HEALTH_PORT === undefined
        ? undefined
        : { host: settings.KEYVAULT_HEALTH_HOST, port: settings.KEYVAULT_HEALTH_PORT },
    recoveryKeyFile: inData(settings.KEYVAULT_RECOVERY_KEY_FILE, "recovery.pub"),
    auditHeadsFile: settings.KEYVAULT_AUDIT_HEADS_FILE && resolve(settings.KEYVAULT_AUDIT_HEADS_FILE),
    auditHeadsLogSeconds: settings.KEYVAULT_AUDIT_HEADS_LOG_SECONDS,
    delegations: {
      ceiling: settings.KEYVAULT_CEILING,
      externalSubjects: settings.KEYVAULT_EXTERNAL_SUBJECTS === "1",
    },
    signingRates: {
      perKey: settings.KEYVAULT_RATE_PER_KEY,
      perTenant: settings.KEYVAULT_RATE_PER_TENANT,
    },
    creationRate: settings.KEYVAULT_CREATION_RATE_PER_TENANT,
    creationsPerDay: settings.KEYVAULT_CREATIONS_PER_DAY,
    keysPerTenant: settings.KEYVAULT_KEYS_PER_TENANT,
    connections: {
      most: settings.KEYVAULT_MAX_CONNECTIONS,
      handshakeRate: settings.KEYVAULT_HANDSHAKE_RATE,
    },
    logLevel: settings.KEYVAULT_LOG_LEVEL,
    exitOnStdinClose: settings.KEYVAULT_EXIT_ON_STDIN_CLOSE === "1",
  };
}

/**
 * Reads the settings for issuing and revoking certificates. `tlsDir` defaults to a folder in
 * `KEYVAULT_DATA_DIR`. Throws `ConfigError` like {@link loadConfig}.
 */
export function loadCertificateConfig(
  tlsDir: string | undefined,
  environment: Environment = process.env,
): CertificateConfig {
  const wanted = settingSchema.pick({
    KEYVAULT_DATA_DIR: true,
    KEYVAULT_SERVER_NAMES: true,
    KEYVAULT_TLS_REVOKED_FILE: true,
  });
  const known = tlsDir === undefined ? environment : { ...environment, KEYVAULT_DATA_DIR: tlsDir };
  const settings = readSettings(wanted, known, { names: NAMES });
  const folder = resolve(tlsDir ?? join(settings.KEYVAULT_DATA_DIR, "tls"));
  return {
    tlsDir: folder,
    serverNames: settings.KEYVAULT_SERVER_NAMES,
    revokedFile: resolve(settings.KEYVAULT_TLS_REVOKED_FILE ?? join(folder, "revoked")),
  };
}

const NO_MODULE: Fault = {
  name: "KEYVAULT_PKCS11_MODULE",
  message: "is missing, and so is SoftHSM: install SoftHSM (Debian: softhsm2) or set the path of a module",
};

function pick(environment: Environment, wanted: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    wanted.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]])),
  );
}
