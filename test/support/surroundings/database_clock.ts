import { Client } from "pg";

/**
 * Makes the clock of a database wrong by some seconds, for all sessions that begin afterwards. Statements
 * that call `now()` or `clock_timestamp()` then find functions of this database before those of Postgres.
 */
export async function shiftDatabaseClock(superuserUrl: string, seconds: number): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  try {
    const clocks = ["clock_timestamp", "now"].map(
      (name) => `
        create or replace function shifted.${name}() returns timestamptz language sql
        as $$ select pg_catalog.${name}() + interval '${seconds} seconds' $$;`,
    );
    await client.query(
      `create schema if not exists shifted; grant usage on schema shifted to public; ${clocks.join("")}`,
    );
    const { rows } = await client.query<{ name: string; path: string }>(
      "select quote_ident(current_database()) as name, current_setting('search_path') as path",
    );
    const [{ name = "", path = "" } = {}] = rows;
    await client.query(`alter database ${name} set search_path = ${path}, shifted, pg_catalog`);
  } finally {
    await client.end();
  }
}
