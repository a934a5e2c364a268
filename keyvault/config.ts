import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { invalidScopes } from "../src/protocol/documents/scopes.ts";
import { UserError } from "./errors.ts";
import type { Rate } from "./rates.ts";
import { findSoftHsm } from "./token/softhsm.ts";

/** A setting is missing or invalid. The message names the setting, never its value. */
export class ConfigError extends UserError {
  override readonly name = "ConfigError";
}

const WHOLE = /^\d{1,9}$/;
const wholeUpTo = (most: number) =>
  z
    .string()
    .refine((text) => WHOLE.test(text) && Number(text) <= most, `must be a whole number from 0 to ${most}`)
    .transform(Number);
const port = wholeUpTo(65_535);
const count = wholeUpTo(1_000_000);
const path = z.string().min(1);
const databaseUrl = z.string().regex(/^postgres(ql)?:\/\//, "must start with postgres://");
const names = z
  .string()
  .transform((text) => text.split(",").map((item) => item.trim()))
  .transform((items) => items.filter((item) => item !== ""));

/** All settings of the vault. */
export const settingSchema = z.object({
  KEYVAULT_DATA_DIR: path,
  KEYVAULT_DATABASE_URL: databaseUrl,
  KEYVAULT_MIGRATION_DATABASE_URL: databaseUrl.optional(),
  KEYVAULT_PKCS11_MODULE: path.optional(),
  KEYVAULT_PKCS11_PARAMETERS: z.string().min(1).optional(),
  KEYVAULT_TOKEN_LABEL: z
    .string()
    .regex(
      /^(?! )[\x20-\x7e]{1,32}(?<! )$/,
      "must be 1 to 32 printable characters without a space at either end",
    )
    .default("deputize"),
  KEYVAULT_TOKEN_DIR: path.optional(),
  KEYVAULT_TOKEN_ENVIRONMENT: names.default([]),
  KEYVAULT_PIN_FILE: path.optional(),
  KEYVAULT_HOST: z.string().min(1).default("127.0.0.1"),
  KEYVAULT_PORT: port.default(8443),
  KEYVAULT_SERVER_NAMES: names.pipe(z.array(z.string()).min(1)).default(["localhost", "127.0.0.1"]),
  KEYVAULT_TLS_CA_FILE: path.optional(),
  KEYVAULT_TLS_CERT_FILE: path.optional(),
  KEYVAULT_TLS_KEY_FILE: path.optional(),
  KEYVAULT_TLS_REVOKED_FILE: path.optional(),
  KEYVAULT_HEALTH_HOST: z.string().min(1).default("127.0.0.1"),
  KEYVAULT_HEALTH_PORT: port.optional(),
  KEYVAULT_RECOVERY_KEY_FILE: path.optional(),
  KEYVAULT_AUDIT_HEADS_FILE: path.optional(),
  KEYVAULT_AUDIT_HEADS_LOG_SECONDS: wholeUpTo(3_600)
    .refine((seconds) => seconds > 0, "must be a whole number from 1 to 3600")
    .default(60),
  KEYVAULT_CEILING: names
    .refine((list) => invalidScopes(list).length === 0, "holds a scope that is not valid")
    .optional(),
  KEYVAULT_EXTERNAL_SUBJECTS: z.enum(["0", "1"]).default("0"),
  KEYVAULT_KEYS_PER_TENANT: count.default(10_000),
  KEYVAULT_RATE_PER_KEY: count.default(250),
  KEYVAULT_RATE_PER_TENANT: count.default(1_000),
  KEYVAULT_CREATION_RATE_PER_TENANT: count.default(25),
  KEYVAULT_CREATIONS_PER_DAY: wholeUpTo(100_000_000).default(100_000),
  KEYVAULT_MAX_CONNECTIONS: count.default(1_000),
  KEYVAULT_HANDSHAKE_RATE: count.default(200),
  KEYVAULT_LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  KEYVAULT_EXIT_ON_STDIN_CLOSE: z.enum(["0", "1"]).default("0"),
});

/**
 * Maximum number of concurrent connections, and of handshakes per second from one address. 0 means no limit.
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

/** Files of the vault's TLS server, and the list of revoked certificates. */
export type TlsConfig = { caFile: string; certFile: string; keyFile: string; revokedFile: string };

/** All settings of the process. All paths are absolute. */
export type Config = {
  dataDir: string;
  databaseUrl: string;
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

type Environment = Record<string, string | undefined>;

/** Settings that contain a password. For each of them, a second setting may name a file with the value. */
const URLS = ["KEYVAULT_DATABASE_URL", "KEYVAULT_MIGRATION_DATABASE_URL"] as const;

/**
 * Reads the settings from the environment. For a name in {@link URLS}, `<name>_FILE` may name a file with the
 * URL. Throws `ConfigError` with the names of all missing or invalid settings.
 */
export function loadConfig(environment: Environment = process.env): Config {
  const settings = parse(settingSchema, URLS.reduce(withFile, environment));
  const dataDir = resolve(settings.KEYVAULT_DATA_DIR);
  const inData = (given: string | undefined, ...name: string[]): string =>
    given === undefined ? join(dataDir, ...name) : resolve(given);
  const module = settings.KEYVAULT_PKCS11_MODULE ?? findSoftHsm();
  if (module === undefined) {
    throw new ConfigError(
      "No PKCS#11 module was found: install SoftHSM (Debian: softhsm2) or set KEYVAULT_PKCS11_MODULE",
    );
  }
  return {
    dataDir,
    databaseUrl: settings.KEYVAULT_DATABASE_URL,
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
  const settings = parse(wanted, known);
  const folder = resolve(tlsDir ?? join(settings.KEYVAULT_DATA_DIR, "tls"));
  return {
    tlsDir: folder,
    serverNames: settings.KEYVAULT_SERVER_NAMES,
    revokedFile: resolve(settings.KEYVAULT_TLS_REVOKED_FILE ?? join(folder, "revoked")),
  };
}

function parse<T>(schema: z.ZodType<T>, environment: Environment): T {
  const parsed = schema.safeParse(environment);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map(
    (issue) => `  ${issue.path.join(".")}: ${describeIssue(issue, environment)}`,
  );
  throw new ConfigError(`These settings are missing or wrong:\n${lines.join("\n")}`);
}

function describeIssue(issue: z.core.$ZodIssue, environment: Environment): string {
  const name = String(issue.path[0]);
  if (environment[name] === undefined) {
    return `is missing${name === "KEYVAULT_DATABASE_URL" ? ", and so is KEYVAULT_DATABASE_URL_FILE" : ""}`;
  }
  if (environment[name] === "" || issue.code === "too_small") return "is empty";
  if (issue.code !== "invalid_value") return issue.message;
  return `must be ${issue.values.join(", ").replace(/, ([^,]*)$/, " or $1")}`;
}

function withFile(environment: Environment, name: string): Environment {
  const file = environment[`${name}_FILE`];
  if (file === undefined || environment[name] !== undefined) return environment;
  try {
    return { ...environment, [name]: readFileSync(file, "utf8").trim() };
  } catch {
    throw new ConfigError(`${name}_FILE names a file that cannot be read`);
  }
}

function pick(environment: Environment, wanted: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    wanted.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]])),
  );
}
