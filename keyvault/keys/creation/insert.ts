import type pg from "pg";
import type { KeyRow, TenantRow } from "../../db/rows.ts";

/** A key row before it is stored. */
export type NewKeyRow = Omit<KeyRow, "state_mac">;

/** Whether a key was made earlier under this request name. */
export async function isMade(client: pg.Client, requestKey: string): Promise<boolean> {
  const { rowCount } = await client.query("select from keys where request_key = $1", [requestKey]);
  return rowCount !== 0;
}

/** Stores an active tenant unless it is there, and gives what is stored now. */
export async function insertTenant(client: pg.Client, tenant: TenantRow): Promise<TenantRow> {
  const { state_seq, state_mac, created_at } = tenant;
  await client.query(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at, state_seq, state_mac)
     values ($1, $2, $3, $4, $5, $6) on conflict do nothing`,
    [tenant.tenant, tenant.kek, tenant.wrapped_data_key, created_at, state_seq, state_mac],
  );
  const { rows } = await client.query<TenantRow>("select * from tenants where tenant = $1 for update", [
    tenant.tenant,
  ]);
  return rows[0] ?? tenant;
}

/** Stores an active key. */
export async function insertKey(client: pg.Client, row: KeyRow): Promise<void> {
  await client.query(
    `insert into keys (key_id, tenant, purpose, label, public_key, wrapped_seeds, seeds_version, attestation, ceiling,
                       created_at, request_key, request_hash, state_seq, state_mac)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
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
      row.state_seq,
      row.state_mac,
    ],
  );
}
