import { UserError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { openDatabase } from "./database.ts";
import { appliedNames, migrate, migrationAhead, migrationNames } from "./migrate.ts";
import { refusePooler } from "./poolers.ts";

/** Migrations that the vault's role finds in the database, and the role's rights. */
type Found = { applied: string[]; owns: boolean; rewrites: boolean };

const MAY_REWRITE = "UPDATE, DELETE, TRUNCATE, TRIGGER";

/**
 * Checks that the tables match this version. If the vault's database role owns the tables, migrates them.
 * Logs a warning if this role can rewrite the audit, as an owner can. Accepts tables that are one migration
 * ahead, with a warning. Throws `UserError` if the tables belong to another version, or if the role lacks
 * rights.
 */
export async function requireTables(databaseUrl: string, log: Logger): Promise<void> {
  await refusePooler(databaseUrl);
  const found = await inspectTables(databaseUrl, log);
  if (found.rewrites || found.owns) {
    log.warn({
      event: "audit_rewritable",
      remedy:
        "The vault's database role may alter the audit: let another role own the tables (KEYVAULT_MIGRATION_DATABASE_URL)",
    });
  }
  const ahead = migrationAhead(found.applied);
  if (ahead !== undefined) {
    log.warn({
      event: "schema_ahead",
      migration: ahead,
      remedy:
        "The database has the tables of the next version. This version works with them, but upgrade soon",
    });
  }
  if (found.owns) return void (await migrate({ databaseUrl, migrationDatabaseUrl: databaseUrl }, log));
  if (found.applied.length === 0) {
    throw new UserError('The database has no tables of a vault: run "keyvault init"');
  }
  const known = migrationNames();
  const missing = known.filter((name) => !found.applied.includes(name));
  if (missing.length > 0) {
    throw new UserError(
      `The database lacks ${missing.join(", ")}, and this role does not own its tables: ${MIGRATE_HINT}`,
    );
  }
}

const MIGRATE_HINT = 'run "keyvault migrate" with KEYVAULT_MIGRATION_DATABASE_URL';

async function inspectTables(url: string, log: Logger): Promise<Found> {
  const database = openDatabase(url, log, 1);
  try {
    const { rows } = await database.raw<{ rows: [Omit<Found, "applied"> & { sees: boolean | null }] }>(
      `select coalesce(pg_has_role(audit.relowner, 'MEMBER'), has_schema_privilege(current_schema(), 'CREATE')) as owns,
              coalesce(has_table_privilege(audit.oid, '${MAY_REWRITE}'), false) as rewrites,
              has_table_privilege(to_regclass('schema_migrations'), 'select') as sees
       from (select) as one left join pg_class as audit on audit.oid = to_regclass('audit')`,
    );
    const [{ owns, rewrites, sees }] = rows;
    if (sees === false) {
      throw new UserError(`The vault's database role was not given its rights: ${MIGRATE_HINT}`);
    }
    return { owns, rewrites, applied: sees === true ? await appliedNames(database) : [] };
  } finally {
    await database.destroy();
  }
}
