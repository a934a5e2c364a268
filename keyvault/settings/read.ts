import { readFileSync } from "node:fs";
import type { z } from "zod";
import { exitStatus, UserError } from "../errors.ts";
import { type Fault, misnamedFaults } from "./faults.ts";

/** A setting is missing or invalid. The message names the setting, never its value. */
export class ConfigError extends UserError {
  override readonly name = "ConfigError";
  override readonly exitStatus = exitStatus.setting;
}

/** Variables of a process by name. */
export type Environment = Record<string, string | undefined>;

/** Settings that contain a password. For each of them, a second setting may name a file with the value. */
const URLS: readonly string[] = ["KEYVAULT_DATABASE_URL", "KEYVAULT_MIGRATION_DATABASE_URL"];

/** `names` are the names of all settings. `check` finds further faults in the settings that are correct. */
type Options<T> = { names: readonly string[]; check?: (settings: Partial<T>) => Fault[] };

/** Reads the settings of a schema. Throws one `ConfigError` with all faults. */
export function readSettings<T extends z.ZodObject>(
  schema: T,
  environment: Environment,
  { names, check = () => [] }: Options<z.infer<T>>,
): z.infer<T> {
  const { values, faults } = withFiles(environment);
  const settings: Record<string, unknown> = {};
  const faulty = new Set(faults.map(({ name }) => name.replace(/_FILE$/, "")));
  for (const [name, type] of Object.entries<z.ZodType>(schema.shape)) {
    if (faulty.has(name)) continue;
    const parsed = type.safeParse(values[name]);
    if (parsed.success) {
      if (parsed.data !== undefined) settings[name] = parsed.data;
    } else {
      faulty.add(name);
      faults.push({
        name,
        message: parsed.error.issues.map((issue) => describe(name, issue, values)).join("; "),
      });
    }
  }
  faults.push(...check(settings as Partial<z.infer<T>>).filter(({ name }) => !faulty.has(name)));
  const known = [...names, ...URLS.map((name) => `${name}_FILE`)];
  const passedOn = settings.KEYVAULT_TOKEN_ENVIRONMENT as string[] | undefined;
  faults.push(...misnamedFaults(environment, [...known, ...(passedOn ?? [])]));
  if (faults.length === 0) return settings as z.infer<T>;
  const lines = faults.map(({ name, message }) => `  ${name}: ${message}`);
  throw new ConfigError(`These settings are missing or wrong:\n${lines.join("\n")}`);
}

function describe(name: string, issue: z.core.$ZodIssue, values: Environment): string {
  if (values[name] === undefined) {
    return `is missing${name === "KEYVAULT_DATABASE_URL" ? ", and so is KEYVAULT_DATABASE_URL_FILE" : ""}`;
  }
  if (values[name] === "" || issue.code === "too_small") return "is empty";
  if (issue.code !== "invalid_value") return issue.message;
  return `must be ${issue.values.join(", ").replace(/, ([^,]*)$/, " or $1")}`;
}

/** Replaces each name in {@link URLS} by the content of the file in `<name>_FILE`. */
function withFiles(environment: Environment): { values: Environment; faults: Fault[] } {
  const values = { ...environment };
  const faults: Fault[] = [];
  for (const name of URLS) {
    const file = environment[`${name}_FILE`];
    if (file === undefined) continue;
    if (environment[name] !== undefined) {
      faults.push({ name: `${name}_FILE`, message: `is set, and so is ${name}: set only one of them` });
      continue;
    }
    try {
      values[name] = readFileSync(file, "utf8").trim();
    } catch {
      faults.push({ name: `${name}_FILE`, message: "names a file that cannot be read" });
    }
  }
  return { values, faults };
}
