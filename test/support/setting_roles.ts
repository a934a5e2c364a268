import { z } from "zod";
import { loadConfig, settingSchema as vaultSchema } from "../../keyvault/config.ts";
import {
  readApiConfig,
  readDatabaseConfig,
  readMigrateConfig,
  readOperatorConfig,
  readWorkerConfig,
  settingSchemas,
} from "../../src/config.ts";
import { databaseFields } from "../../src/input/database_url.ts";
import { vaultFiles } from "./vault_files.ts";

export type Environment = Record<string, string>;
/** A role: its required settings, all its settings, and how it reads them. */
export type Role = {
  least: Environment;
  schemas: readonly z.ZodObject[];
  read(environment: Environment): unknown;
};

const DATABASE = { DATABASE_URL: "postgres://localhost/none" };
const SEALED = { ...DATABASE, SEALING_KEY: `${"A".repeat(43)}=` };
const URLS = { API_URL: "https://a", OPERATOR_API_URL: "https://b", CONSOLE_URL: "https://c" };
const VAULT = { VAULT_URL: "https://v", ...(await vaultFiles()) };

const commands = Object.fromEntries(
  ["reconcile", "credits", "history"].map((name): [string, Role] => [
    name,
    { least: DATABASE, schemas: [z.object(databaseFields)], read: readDatabaseConfig },
  ]),
);
/** All roles and commands that read settings. */
export const roles: Record<string, Role> = {
  api: {
    least: { ...SEALED, ...VAULT, BASE_URL: "https://a", SMTP_URL: "smtp://m" },
    schemas: [settingSchemas.api],
    read: readApiConfig,
  },
  worker: { least: SEALED, schemas: [settingSchemas.worker], read: readWorkerConfig },
  migrate: { least: DATABASE, schemas: [settingSchemas.migrate], read: readMigrateConfig },
  events: { least: DATABASE, schemas: [settingSchemas.migrate], read: readMigrateConfig },
  operator: {
    least: { ...URLS, OPERATOR_TOKEN: "t".repeat(32) },
    schemas: settingSchemas.operator,
    read: readOperatorConfig,
  },
  vault: {
    least: { KEYVAULT_DATA_DIR: "/data", KEYVAULT_DATABASE_URL: "postgres://localhost/vault" },
    schemas: [vaultSchema],
    read: loadConfig,
  },
  ...commands,
};

/** Reads a role's settings, and returns the message of the error, or an empty text. */
export function faultOf(role: string, changes: Record<string, string | undefined>): string {
  const { least, read } = roles[role] as Role;
  const given = Object.entries({ ...least, ...changes }).filter(([, value]) => value !== undefined);
  try {
    read(Object.fromEntries(given) as Environment);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** Returns the JSON schema of a role's setting, with the kind of its values. */
export function jsonSchemaOf(role: string, name: string) {
  const shapes = (roles[role] as Role).schemas.map((schema) => schema.shape[name]);
  const found = shapes.find((shape) => shape !== undefined) as z.ZodType;
  return z.toJSONSchema(found, { io: "input", unrepresentable: "any" });
}
