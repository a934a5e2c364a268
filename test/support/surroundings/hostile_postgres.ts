import { Client } from "pg";

/** Defaults of a server in an installation that our statements must not depend on. */
export const HOSTILE_SETTINGS = {
  DateStyle: "SQL, DMY",
  IntervalStyle: "sql_standard",
  TimeZone: "Asia/Kolkata",
  default_transaction_isolation: "serializable",
  search_path: "installation, public",
};

/**
 * Makes a template of hostile databases: no schema `public`, and a Turkish collation, in which the lower case
 * of `I` is not `i`. Returns the template's name. `urlOf` returns a superuser's URL of a database.
 */
export async function createHostileTemplate(urlOf: (database: string) => string): Promise<string> {
  await query(
    urlOf("postgres"),
    "create database hostile template template0 encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'tr-TR'",
  );
  await query(
    urlOf("hostile"),
    "drop schema public; create schema installation authorization pg_database_owner; grant usage on schema installation to public",
  );
  return "hostile";
}

async function query(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
