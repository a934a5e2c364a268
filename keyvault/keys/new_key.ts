import type pg from "pg";
import { beyondCeiling } from "../../src/protocol/documents/scopes.ts";
import type { RowCodes } from "../audit/row_codes.ts";
import type { KeyRow, Purpose, TenantRow } from "../db/rows.ts";
import { type Refusal, refuse } from "../errors.ts";

/**
 * Request for a key. `ceiling` permanently limits what the key may delegate or receive. It can only shrink.
 */
export type KeyRequest = {
  tenant: string;
  purpose: Purpose;
  label: string;
  ceiling?: string[];
};

/** A key row before it is stored. */
export type NewKeyRow = Omit<KeyRow, "state_mac">;

/** Returns whether a key was created earlier under this `requestKey`. */
export async function isMade(client: pg.Client, requestKey: string): Promise<boolean> {
  const { rowCount } = await client.query("select from keys where request_key = $1", [requestKey]);
  return rowCount !== 0;
}

/** Stores the row of a new, active key. */
export async function insertKey(client: pg.Client, row: KeyRow): Promise<void> {
  await client.query(
    `insert into keys (key_id, tenant, purpose, label, public_key, wrapped_seeds, seeds_version, attestation, ceiling,
                       created_at, request_key, request_hash, state_seq, state_mac)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
    [
      ...[row.key_id, row.tenant, row.purpose, row.label, row.public_key, row.wrapped_seeds],
      ...[row.seeds_version, row.attestation, row.ceiling === null ? null : JSON.stringify(row.ceiling)],
      ...[row.created_at, row.request_key, row.request_hash, row.state_seq, row.state_mac],
    ],
  );
}

/**
 * Refuses a new key if its tenant has reached the quota (0: no limit). Only active keys count: otherwise a
 * publisher of an application could use up a customer's quota by creating and deleting agents. Call it in the
 * transaction that stores the key.
 */
export async function exceedsQuota(
  client: pg.Client,
  tenant: string,
  quota: number,
): Promise<Refusal | undefined> {
  if (quota === 0) return undefined;
  const { rowCount } = await client.query(
    "select from keys where tenant = $1 and state = 'active' limit $2",
    [tenant, quota],
  );
  return (rowCount ?? 0) < quota
    ? undefined
    : refuse("policy_violation", `The tenant has ${quota} active keys already`);
}

/** Initial state of a new tenant. */
export const NEW_TENANT = { state: "active", pending: null, destroy_at: null } as const;

/** Returns the refusal for a new key whose tenant is being destroyed. */
export function refuseEnding(): Refusal {
  return refuse("policy_violation", "The tenant is being destroyed, so it cannot have a new key");
}

/**
 * Stores the tenant or finds it with the same data key, and then returns `undefined`. Returns `raced` if the
 * stored tenant has another data key, or if `keks` lacks the version that wraps this one. Returns `damaged`
 * if the tenant's row was altered, and a refusal if the tenant is being destroyed.
 */
export async function placeTenant(
  client: pg.Client,
  rowCodes: RowCodes,
  tenant: TenantRow,
  keks: readonly string[],
): Promise<"raced" | "damaged" | Refusal | undefined> {
  if (!keks.includes(tenant.kek)) return "raced";
  await client.query(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at, state_seq, state_mac)
     values ($1, $2, $3, $4, $5, $6) on conflict do nothing`,
    [
      ...[tenant.tenant, tenant.kek, tenant.wrapped_data_key, tenant.created_at],
      ...[tenant.state_seq, tenant.state_mac],
    ],
  );
  const { rows } = await client.query<TenantRow>("select * from tenants where tenant = $1 for update", [
    tenant.tenant,
  ]);
  const [stored = tenant] = rows;
  const [intact] = await rowCodes.check({ keys: [], tenants: [stored] }, tenant.state_seq ?? undefined);
  if (intact !== true) return "damaged";
  if (stored.state !== "active") return refuseEnding();
  return stored.wrapped_data_key.equals(tenant.wrapped_data_key) ? undefined : "raced";
}

/**
 * Refuses a root key whose ceiling is not within that of one of the tenant's existing root keys, even
 * disabled ones. Otherwise a caller could widen a tenant's rights with another root key. `known` contains the
 * ids of the existing root keys from the audit, because the rows are not trusted. Returns `damaged` if one of
 * the rows is missing or altered. Call it in the transaction that stores the key.
 */
export async function exceedsTenantCeiling(
  client: pg.Client,
  { rowCodes, known }: { rowCodes: Pick<RowCodes, "check">; known: readonly string[] },
  { purpose, ceiling }: KeyRequest,
): Promise<Refusal | "damaged" | undefined> {
  if (purpose !== "account_root") return undefined;
  const { rows } = await client.query<KeyRow>("select * from keys where key_id = any($1)", [known]);
  const roots = rows.filter((row) => row.purpose === "account_root");
  const stored = new Set(roots.map(({ key_id }) => key_id));
  if (!known.every((keyId) => stored.has(keyId))) return "damaged";
  if ((await rowCodes.check({ keys: rows, tenants: [] })).includes(false)) return "damaged";
  const within = ({ ceiling: recorded }: KeyRow): boolean =>
    recorded === null || (ceiling !== undefined && beyondCeiling(recorded, ceiling).length === 0);
  return rows.length === 0 || rows.some(within)
    ? undefined
    : refuse(
        "policy_violation",
        "The tenant's root keys have a ceiling; give the new one a ceiling within it",
      );
}
