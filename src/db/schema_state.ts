import type { Database } from "./database.ts";
import { sqlState } from "./errors.ts";

/**
 * The relation between a database's schema and a version of the program. `usable`: the version works with the
 * schema, even if one later migration was applied. `behind`: the migrations in `missing` were not applied.
 * `strange`: the version does not know the migrations in `unknown` and cannot tolerate them.
 */
export type SchemaState =
  | { kind: "usable" }
  | { kind: "behind"; missing: string[] }
  | { kind: "strange"; unknown: string[] };

/** SQLSTATE: no schema of the search path exists. */
export const NO_SCHEMA = "3F000";
const UNDEFINED_TABLE = "42P01";

/** Throws an error with SQLSTATE 3F000 if no schema in the session's search path exists for the role. */
export async function assertHasSchema(database: Database): Promise<void> {
  const { rows } = await database.raw(
    "select current_schema() as schema, current_setting('search_path') as path",
  );
  if (rows[0].schema !== null) return;
  const error = new Error(`no schema in the search path (${rows[0].path}) exists`);
  throw Object.assign(error, { code: NO_SCHEMA });
}

/** Returns the names of the migrations applied to a database. */
export async function appliedMigrations(database: Database): Promise<string[]> {
  try {
    return await database("schema_migrations").orderBy("id").pluck<string[]>("name");
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return [];
    throw error;
  }
}

/**
 * Compares a schema with the migrations that a version knows. Tolerates one later migration, for the rollback
 * of a release and for processes of the former version during an upgrade.
 */
export function judgeSchema(applied: readonly string[], known: readonly string[]): SchemaState {
  const newest = known.at(-1) ?? "";
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length > 1 || unknown.some((name) => name < newest)) return { kind: "strange", unknown };
  const missing = known.filter((name) => !applied.includes(name));
  return missing.length > 0 ? { kind: "behind", missing } : { kind: "usable" };
}

/** Returns an error message for a schema with unknown migrations. The message says what to do. */
export function strangeSchema(unknown: readonly string[]): string {
  return (
    `The database has migrations that this version does not know: ${unknown.join(", ")}. It tolerates at ` +
    "most one of the next release: run the release that migrated the database, or the one before it"
  );
}
