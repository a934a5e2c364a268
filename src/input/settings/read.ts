import { readFileSync } from "node:fs";
import type { z } from "zod";
import { DATABASE_SECRETS } from "../database_url.ts";
import { EVENT_SECRETS } from "../event_settings.ts";
import { misnamedFaults } from "./misnamed.ts";
import { configError, type Fault } from "./start_error.ts";

/** Variables of a process by name. */
export type Environment = Record<string, string | undefined>;

/** Settings that may come from a file: `NAME_FILE` then names the file. */
export const FROM_FILE: readonly string[] = [
  ...DATABASE_SECRETS,
  ...["SEALING_KEY", "SMTP_URL", "OPERATOR_TOKEN"],
  ...EVENT_SECRETS,
];

/** Finds faults between settings. A setting that is missing or faulty is `undefined`. */
export type Check<T> = (config: Partial<T>) => Fault[];

type Options<T> = {
  /** Checks of settings that depend on each other, or on files. */
  checks?: readonly Check<T>[];
  /** Names of the settings of other roles, which may be in the same environment. */
  others?: readonly string[];
};

/**
 * Reads a role's settings. An empty variable counts as absent. Throws one `ConfigError` with all faults:
 * missing and wrong values, unreadable files, settings that do not fit together, and misspelled names.
 */
export function readSettings<T extends z.ZodObject>(
  schema: T,
  environment: Environment,
  { checks = [], others = [] }: Options<z.infer<T>> = {},
): z.infer<T> {
  const own = Object.keys(schema.shape);
  const { values, faults } = withFiles(environment, own);
  const config: Record<string, unknown> = {};
  for (const [name, type] of Object.entries<z.ZodType>(schema.shape)) {
    if (faults.some((fault) => nameOf(fault) === name)) continue;
    const result = type.safeParse(values[name]);
    if (result.success) {
      if (result.data !== undefined) config[name] = result.data;
    } else {
      faults.push(...result.error.issues.map((issue) => faultOf(name, issue, values[name])));
    }
  }
  const faulty = new Set(faults.map(nameOf));
  for (const check of checks) {
    faults.push(...check(config as Partial<z.infer<T>>).filter(({ name }) => !faulty.has(name)));
  }
  faults.push(...misnamedFaults(environment, { own: withFileNames(own), others: withFileNames(others) }));
  if (faults.length > 0) throw configError(faults);
  return config as z.infer<T>;
}

/** Adds the names of the settings that name files. */
function withFileNames(names: readonly string[]): string[] {
  return [...names, ...names.filter((name) => FROM_FILE.includes(name)).map((name) => `${name}_FILE`)];
}

/**
 * Replaces `NAME` with the content of the file in `NAME_FILE`, for every setting that can be a secret. The
 * last line break is removed. Also removes empty variables.
 */
export function withFiles(
  environment: Environment,
  names: readonly string[] = FROM_FILE,
): { values: Environment; faults: Fault[] } {
  const values = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const faults: Fault[] = [];
  for (const name of FROM_FILE.filter((each) => names.includes(each))) {
    const file = values[`${name}_FILE`];
    if (file === undefined) continue;
    if (values[name] !== undefined) {
      faults.push({ name: `${name}_FILE`, message: `is set, and so is ${name}: set only one of them` });
      continue;
    }
    try {
      const text = readFileSync(file, "utf8").replace(/\r?\n$/, "");
      if (text === "") faults.push({ name: `${name}_FILE`, message: "names an empty file" });
      values[name] = text;
    } catch {
      faults.push({ name: `${name}_FILE`, message: "names a file that cannot be read" });
    }
  }
  return { values, faults };
}

/** Returns the setting that a fault makes unusable. */
function nameOf({ name }: Fault): string {
  const base = name.replace(/_FILE$/, "");
  return base !== name && FROM_FILE.includes(base) ? base : (name.split(".")[0] ?? name);
}

function faultOf(name: string, issue: z.core.$ZodIssue, value: string | undefined): Fault {
  if (value === undefined) return { name, message: "is required" };
  return { name: [name, ...issue.path].join("."), message: messageOf(issue) };
}

function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code !== "invalid_value") return issue.message;
  return `must be ${issue.values.join(", ").replace(/, ([^,]*)$/, " or $1")}`;
}
