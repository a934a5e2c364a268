import type { Knex } from "knex";
import { Problem } from "../errors.ts";
import type { Database } from "./connection.ts";

/** What the role that runs may do with each table, and no more: of the audit's records it alters and removes none. */
const PRIVILEGES: Readonly<Record<string, string>> = {
  audit: "SELECT, INSERT",
  tenants: "SELECT, INSERT, UPDATE",
  keys: "SELECT, INSERT, UPDATE",
  residents: "SELECT, INSERT, UPDATE, DELETE",
  audit_register: "SELECT, INSERT, UPDATE",
  listed_certificates: "SELECT, INSERT, UPDATE, DELETE",
  schema_migrations: "SELECT",
};

type Place = { role: string; database: string; server: string };

const WHERE =
  "SELECT current_user AS role, current_database() AS database, pg_postmaster_start_time()::text AS server";

/**
 * The name of the role that runs, undefined when it is the owner.
 *
 * @throws Problem when the two came to different databases
 */
export async function findRunningRole(owner: Database, running: Database): Promise<string | undefined> {
  const own = await place(owner);
  const other = await place(running);
  if (own.database !== other.database || own.server !== other.server)
    throw new Problem(
      "KEYVAULT_DATABASE_URL and KEYVAULT_MIGRATION_DATABASE_URL lead to different databases: they must be two roles of one",
    );
  return own.role === other.role ? undefined : other.role;
}

/** Gives the role that runs its rights on the owner's tables, and takes every other one there away, from everybody's too. */
export async function grantPrivileges(owner: Database | Knex.Transaction, running: string): Promise<void> {
  await owner.transaction(async (transaction) => {
    const { rows } = await transaction.raw<{ rows: [{ schema: string }] }>(
      "SELECT current_schema() AS schema",
    );
    await transaction.raw("GRANT USAGE ON SCHEMA ?? TO ??", [rows[0].schema, running]);
    for (const [table, rights] of Object.entries(PRIVILEGES)) {
      await transaction.raw("REVOKE ALL ON ?? FROM PUBLIC, ??", [table, running]);
      await transaction.raw(`GRANT ${rights} ON ?? TO ??`, [table, running]);
    }
  });
}

async function place(database: Database): Promise<Place> {
  const { rows } = await database.raw<{ rows: [Place] }>(WHERE);
  return rows[0];
}
