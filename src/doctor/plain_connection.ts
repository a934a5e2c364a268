import pg from "pg";
import { readDatabaseUrl } from "../input/database_url.ts";

/** Milliseconds for connecting, and for each query. */
export const CONNECT_MS = 4_000;

/**
 * Runs `work` over a plain connection, which also works on a standby and before the first migration. A
 * transaction keeps all statements on one server connection behind a pooler. Nothing is committed.
 */
export async function overPlainConnection<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const { connectionString, schema } = readDatabaseUrl(url);
  const client = new pg.Client({
    connectionString,
    application_name: "deputize-doctor",
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: CONNECT_MS,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("begin");
    if (schema !== undefined) await client.query(`set local search_path = ${pg.escapeIdentifier(schema)}`);
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
