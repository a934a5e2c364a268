import type { Database } from "./database.ts";
import { sqlState } from "./errors.ts";

/**
 * What a database's schema is to a version that knows some migrations: `usable`, also when one of a later
 * version came on top; `behind` when it lacks `missing`; `strange` when it has `unknown` ones beyond that.
 */
export type SchemaState =
  | { kind: "usable" }
  | { kind: "behind"; missing: string[] }
  | { kind: "strange"; unknown: string[] };

const UNDEFINED_TABLE = "42P01";

/** Names of the migrations that a database has; none where there was never one. */
export async function appliedMigrations(database: Database): Promise<string[]> {
  try {
    return await database("schema_migrations").orderBy("id").pluck<string[]>("name");
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return [];
    throw error;
  }
}

/**
 * What a schema is to a version that knows these migrations. One later migration is borne, so that a release
 * can be rolled back, and the former version's processes go on while a new one is installed.
 */
export function judgeSchema(applied: readonly string[], known: readonly string[]): SchemaState {
  const newest = known.at(-1) ?? "";
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length > 1 || unknown.some((name) => name < newest)) return { kind: "strange", unknown };
  const missing = known.filter((name) => !applied.includes(name));
  return missing.length > 0 ? { kind: "behind", missing } : { kind: "usable" };
}

/** Says why a version does not work on a schema that has these migrations, and what to do. */
export function strangeSchema(unknown: readonly string[]): string {
  return (
    `The database has migrations that this version does not know: ${unknown.join(", ")}. It works with one ` +
    "of the next release at most: run the release that the database was migrated to, or the one before it"
  );
}
