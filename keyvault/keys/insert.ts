import type pg from "pg";
import type { KeyRow, TenantRow } from "../db/rows.ts";

/** A key row before it is stored. */
export type NewKeyRow = Omit<KeyRow, "state" | "disabled_at">;

/** The key made earlier under this request name, if any. */
export async function readRequest(client: pg.Client, requestKey: string): Promise<KeyRow | undefined> {
  const { rows } = await client.query<KeyRow>("SELECT * FROM keys WHERE request_key = $1", [requestKey]);
  return rows[0];
}

/** Stores a tenant unless it is there; tells whether its stored data key is this one. */
export async function insertTenant(client: pg.Client, tenant: TenantRow): Promise<boolean> {
  const values = [tenant.tenant, tenant.kek, tenant.wrapped_data_key, tenant.created_at];
  await client.query("INSERT INTO tenants VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", values);
  const { rowCount } = await client.query("SELECT FROM tenants WHERE tenant = $1 AND wrapped_data_key = $2", [
    tenant.tenant,
    tenant.wrapped_data_key,
  ]);
  return rowCount === 1;
}

/** Stores an active key. */
export async function insertKey(client: pg.Client, row: NewKeyRow): Promise<void> {
  await client.query(
    `INSERT INTO keys (key_id, tenant, purpose, label, public_key, wrapped_seeds, seeds_version, attestation, ceiling,
                       created_at, request_key, request_hash)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      row.key_id,
      row.tenant,
      row.purpose,
      row.label,
      row.public_key,
      row.wrapped_seeds,
      row.seeds_version,
      row.attestation,
      row.ceiling === null ? null : JSON.stringify(row.ceiling),
      row.created_at,
      row.request_key,
      row.request_hash,
    ],
  );
}
