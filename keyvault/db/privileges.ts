import type { Knex } from "knex";
import { UserError } from "../errors.ts";
import type { Database } from "./database.ts";

/**
 * What the role that runs may do with each table, and no more: of the audit's records it alters and removes
 * none.
 */
const PRIVILEGES: Readonly<Record<string, string>> = {
  audit: "select, insert",
  tenants: "select, insert, update",
  keys: "select, insert, update",
  audit_register: "select, insert, update",
  listed_certificates: "select, insert, update, delete",
  schema_migrations: "select",
};

type Place = { role: string; database: string; server: string };

const WHERE =
  "select current_user as role, current_database() as database, pg_postmaster_start_time()::text as server";

/**
 * The name of the role that runs, undefined when it is the owner.
 *
 * Throws `UserError` when the two reach different databases
 */
export async function findRunningRole(owner: Database, running: Database): Promise<string | undefined> {
  const own = await place(owner);
  const other = await place(running);
  if (own.database !== other.database || own.server !== other.server) {
    throw new UserError(
      "KEYVAULT_DATABASE_URL and KEYVAULT_MIGRATION_DATABASE_URL name different databases: they must be two roles of the same database",
    );
  }
  return own.role === other.role ? undefined : other.role;
}

/**
 * Gives the role that runs its rights on the owner's tables, and takes every other one there away, from
 * everybody's too; with `add` it takes none away.
 */
export async function grantPrivileges(
  owner: Database | Knex.Transaction,
  running: string,
  how: "set" | "add" = "set",
): Promise<void> {
  await owner.transaction(async (transaction) => {
    const { rows } = await transaction.raw<{ rows: [{ schema: string }] }>(
      "select current_schema() as schema",
    );
    await transaction.raw("grant usage on schema ?? to ??", [rows[0].schema, running]);
    for (const [table, rights] of Object.entries(PRIVILEGES)) {
      if (how === "set") await transaction.raw("revoke all on ?? from public, ??", [table, running]);
      await transaction.raw(`grant ${rights} on ?? to ??`, [table, running]);
    }
  });
}

async function place(database: Database): Promise<Place> {
  const { rows } = await database.raw<{ rows: [Place] }>(WHERE);
  return rows[0];
}
