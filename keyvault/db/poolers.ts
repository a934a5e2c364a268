import type pg from "pg";
import { ConfigError } from "../settings/read.ts";
import { createClient } from "./database.ts";

const POOLED =
  "The vault's database is behind a pooler, and a pooler can lose the lock of the only writer: let " +
  "KEYVAULT_DATABASE_URL and KEYVAULT_MIGRATION_DATABASE_URL lead to the database itself";

/**
 * Connects a client. Throws `ConfigError` if a pooler answers instead of the server. A pooler refuses the
 * parameters of a session, or gives its clients other process numbers than the server's.
 */
export async function connectWithoutPooler(client: pg.Client): Promise<void> {
  try {
    await client.connect();
  } catch (error) {
    const isRefusal = error instanceof Error && error.message.startsWith("unsupported startup parameter");
    throw isRefusal ? new ConfigError(POOLED) : error;
  }
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  if (rows[0]?.pid !== (client as { processID?: number }).processID) throw new ConfigError(POOLED);
}

/** Throws `ConfigError` if the URL leads to a pooler, or the error of the driver. */
export async function refusePooler(url: string): Promise<void> {
  const client = createClient(url);
  try {
    await connectWithoutPooler(client);
  } finally {
    client.end().catch(() => {});
  }
}
