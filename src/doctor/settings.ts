import type { ZodType } from "zod";
import {
  type ApiConfig,
  type ClusterOperatorConfig,
  ConfigError,
  type FolderOperatorConfig,
  readApiConfig,
  readMigrateConfig,
  readOperatorConfig,
  readWorkerConfig,
  StartError,
  settingSchemas,
  type WorkerConfig,
} from "../config.ts";
import { UsageError } from "../input/exit_status.ts";
import { withFiles } from "../input/settings/read.ts";

/** The roles whose surroundings can be checked. */
export const doctorRoles = ["api", "worker", "operator", "migrate"] as const;
export type DoctorRole = (typeof doctorRoles)[number];

export type Environment = Readonly<Record<string, string | undefined>>;

/** The settings of all chosen roles that are present and valid. */
export type Settings = Partial<
  ApiConfig &
    WorkerConfig &
    FolderOperatorConfig &
    ClusterOperatorConfig &
    ReturnType<typeof readMigrateConfig>
>;

/** `wrong` contains the names of settings that are set to something invalid. */
export type ReadSettings = { values: Settings; wrong: ReadonlySet<string> };

/** Returns the environment of this process. */
export function processEnvironment(): Environment {
  return process.env;
}

/** Settings that only one role has. One of them suffices to recognize the role. */
const SIGNS: Record<DoctorRole, readonly string[]> = {
  api: ["BASE_URL", "VAULT_URL", "VAULT_CERT_FILE", "SMTP_URL", "SMTP_URL_FILE"],
  operator: ["OPERATOR_API_URL", "API_URL", "CONSOLE_URL"],
  worker: ["LEASE_SECONDS", "CLAIM_SECONDS"],
  migrate: ["MIGRATE_WAIT_SECONDS", "KAFKA_PARTITIONS", "KAFKA_REPLICATION"],
};

/**
 * Returns the roles whose settings are in the environment, or the `named` roles. Without a setting that only
 * one role has, a sealing key belongs to a worker, and a database alone to `migrate`. Throws `UsageError` for
 * an unknown role, and `StartError` if no role has settings.
 */
export function chooseRoles(named: readonly string[], environment: Environment): DoctorRole[] {
  const isSet = (name: string) => (environment[name] ?? "") !== "";
  const unknown = named.find((name) => !doctorRoles.some((role) => role === name));
  if (unknown !== undefined) {
    throw new UsageError(`${JSON.stringify(unknown)} is not a role: name ${doctorRoles.join(", ")}, or none`);
  }
  if (named.length > 0) return doctorRoles.filter((role) => named.includes(role));
  const signed = doctorRoles.filter((role) => SIGNS[role].some(isSet));
  if (signed.length > 0) return signed;
  if (isSet("SEALING_KEY") || isSet("SEALING_KEY_FILE")) return ["worker"];
  if (isSet("DATABASE_URL") || isSet("DATABASE_URL_FILE")) return ["migrate"];
  throw new StartError(
    "No role's settings are set. Run `deputize doctor` where a role runs, for example with `kubectl exec`, or set " +
      "the settings of docs/settings.md first",
  );
}

const readers: Record<DoctorRole, (environment: Environment) => unknown> = {
  api: readApiConfig,
  worker: readWorkerConfig,
  operator: readOperatorConfig,
  migrate: readMigrateConfig,
};

/** Returns all faults of a role's settings, as the role itself finds them. None of them quotes a secret. */
export function settingFaults(role: DoctorRole, environment: Environment): string[] {
  try {
    readers[role](environment);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const lines = error.message.split("\n").map((line) => line.trim());
    return lines.length > 1 ? lines.slice(1) : lines;
  }
}

/** Reads each setting of the roles separately, so that one wrong setting prevents few checks. */
export function readSettings(roles: readonly DoctorRole[], environment: Environment): ReadSettings {
  const { values: texts, faults } = withFiles(environment);
  const wrong = new Set(faults.map(({ name }) => name.replace(/_FILE$/, "")));
  const values: Record<string, unknown> = {};
  const shapes = roles.flatMap((role) => [settingSchemas[role]].flat().map(({ shape }) => shape));
  for (const [name, schema] of shapes.flatMap((shape) => Object.entries(shape))) {
    if (wrong.has(name)) continue;
    const result = (schema as ZodType).safeParse(texts[name]);
    if (result.success) values[name] = result.data;
    else if (texts[name] !== undefined) wrong.add(name);
  }
  return { values: values as Settings, wrong };
}
