import type pg from "pg";
import { available } from "../db/available.ts";
import type { Database } from "../db/database.ts";
import type { TenantRow } from "../db/rows.ts";

/** A stored data key. */
export type StoredDataKey = Pick<TenantRow, "tenant" | "kek" | "wrapped_data_key">;

/**
 * Reads the data keys of at most `limit` tenants after that name, or from the first, in the order of their
 * names.
 */
export type ReadDataKeys = (after: string | undefined, limit: number) => Promise<readonly StoredDataKey[]>;

/**
 * Whether a row has a data key; by the key itself, not by the tenant's state, which the database could have
 * been given.
 */
const STORED = "octet_length(wrapped_data_key) > 0";

/** Reading in a turn of the journal. */
export function readInTurn(client: pg.Client): ReadDataKeys {
  return async (after, limit) => {
    const { rows } = await client.query<StoredDataKey>(
      `select tenant, kek, wrapped_data_key from tenants where ${STORED} and ($1::text is null or tenant > $1)
       order by tenant limit $2`,
      [after ?? null, limit],
    );
    return rows;
  };
}

/** Reading beside the journal. Rejects with `VaultError unavailable` without a database. */
export function readBeside(database: Database): ReadDataKeys {
  return (after, limit) =>
    available(() => {
      const query = database<TenantRow>("tenants").whereRaw(STORED).orderBy("tenant").limit(limit);
      if (after !== undefined) query.where("tenant", ">", after);
      return query.select("tenant", "kek", "wrapped_data_key");
    });
}

/** How many data keys there are. Rejects with `VaultError unavailable` without a database. */
export async function countStored(database: Database): Promise<number> {
  const [row] = await available(() =>
    database("tenants").whereRaw(STORED).count<{ count: number }[]>("* as count"),
  );
  return row?.count ?? 0;
}

/** How many data keys are under a version, as the database has it. */
export async function countUnder(client: pg.Client, kek: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `select count(*) as count from tenants where ${STORED} and kek = $1`,
    [kek],
  );
  return rows[0]?.count ?? 0;
}
