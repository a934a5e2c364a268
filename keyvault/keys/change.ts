import type pg from "pg";
import { beyondCeiling, coversScopes } from "../../src/protocol/documents/scopes.ts";
import type { Change, Journal } from "../audit/journal.ts";
import type { AuditEntry, Caller } from "../audit/record.ts";
import { keyStateDigest, type RowCodes, tenantStateDigest } from "../audit/row_codes.ts";
import type { Clock } from "../clock.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import type { DataKeys } from "./data_keys.ts";
import type { KeyStore } from "./store.ts";

/** Dependencies of changes to a stored key. */
export type KeyChangeParts = { journal: Journal; store: KeyStore; rowCodes: RowCodes };

/** Dependencies of changes to a tenant. */
export type TenantChangeParts = KeyChangeParts & { dataKeys: DataKeys };

/** The key to change. If `tenant` is set, another tenant's key is treated as if it did not exist. */
type KeyTarget = { keyId: string; tenant: string | undefined };

/** A changed row, and details for its audit record. */
export type Changed<Row> = { row: Row; detail?: Readonly<Record<string, string>> };

type About = Omit<AuditEntry, "outcome" | "keyId" | "purpose">;

/**
 * Changes one key and records the change in the same transaction. After the change is durable, no signature
 * under the old state is released. `apply` receives the locked row after a check that it was not altered. It
 * returns the new row or a refusal. A refusal is recorded and changes nothing. Rejects with `VaultError
 * key_damaged`, recorded as `failed`, if the row was altered.
 */
export async function changeKey(
  parts: KeyChangeParts,
  { keyId, tenant }: KeyTarget,
  about: About,
  apply: (row: KeyRow) => Changed<KeyRow> | Refusal,
): Promise<KeyRow | Refusal> {
  return changeRow<KeyRow>(parts, apply, {
    async lock(client) {
      const { rows } = await client.query<KeyRow>("select * from keys where key_id = $1 for update", [keyId]);
      return rows.find((row) => tenant === undefined || row.tenant === tenant);
    },
    entryOf: (row) => ({ ...about, keyId, ...(row && { purpose: row.purpose }) }),
    rowsOf: (row) => ({ keys: [row], tenants: [] }),
    digestOf: keyStateDigest,
    async write(client, row) {
      await client.query(
        `update keys set state = $2, ceiling = $3, pending = $4, disabled_at = $5, destroy_at = $6,
                         wrapped_seeds = $7, state_seq = $8, state_mac = $9
         where key_id = $1`,
        [
          ...[row.key_id, row.state, row.ceiling === null ? null : JSON.stringify(row.ceiling), row.pending],
          ...[row.disabled_at, row.destroy_at, row.wrapped_seeds, row.state_seq, row.state_mac],
        ],
      );
    },
    committed: () => parts.store.changed(keyId),
  });
}

/**
 * Changes one tenant, as {@link changeKey} changes a key. The vault immediately erases the tenant's unwrapped
 * keys from memory. Refuses with `key_not_found` for a tenant without keys.
 */
export async function changeTenant(
  parts: TenantChangeParts,
  tenant: string,
  about: About,
  apply: (row: TenantRow) => Changed<TenantRow> | Refusal,
): Promise<TenantRow | Refusal> {
  return changeRow<TenantRow>(parts, apply, {
    async lock(client) {
      const { rows } = await client.query<TenantRow>("select * from tenants where tenant = $1 for update", [
        tenant,
      ]);
      return rows[0];
    },
    entryOf: () => ({ ...about, detail: { ...about.detail, tenant } }),
    rowsOf: (row) => ({ keys: [], tenants: [row] }),
    digestOf: tenantStateDigest,
    async write(client, row) {
      await client.query(
        `update tenants set state = $2, pending = $3, destroy_at = $4, wrapped_data_key = $5, state_seq = $6,
                            state_mac = $7
         where tenant = $1`,
        [
          ...[row.tenant, row.state, row.pending, row.destroy_at, row.wrapped_data_key],
          ...[row.state_seq, row.state_mac],
        ],
      );
    },
    committed() {
      parts.dataKeys.clear();
      parts.store.changed();
    },
  });
}

/** How to lock, record, authenticate and write a row of one table. */
type Table<Row> = {
  lock(client: pg.Client): Promise<Row | undefined>;
  entryOf(row: Row | undefined): Omit<AuditEntry, "outcome">;
  rowsOf(row: Row): { keys: KeyRow[]; tenants: TenantRow[] };
  digestOf(row: Row): Buffer;
  write(client: pg.Client, row: Row): Promise<void>;
  committed(): void;
};

async function changeRow<Row extends KeyRow | TenantRow>(
  { journal, rowCodes }: Pick<KeyChangeParts, "journal" | "rowCodes">,
  apply: (row: Row) => Changed<Row> | Refusal,
  table: Table<Row>,
): Promise<Row | Refusal> {
  const result = await journal.change(async (client, seq): Promise<Change<Row | Refusal | "damaged">> => {
    const row = await table.lock(client);
    const entry = table.entryOf(row);
    const refused = (refusal: Refusal): Change<Refusal> => {
      return { value: refusal, entry: { ...entry, outcome: refusal.refused } };
    };
    if (row === undefined) return refused(refuse("key_not_found"));
    const [intact] = await rowCodes.check(table.rowsOf(row));
    if (intact !== true) return { value: "damaged", entry: { ...entry, outcome: "failed" } };
    const changed = apply(row);
    if (isRefusal(changed)) return refused(changed);
    const next = { ...changed.row, state_seq: seq };
    const { keys, tenants } = await rowCodes.add(table.rowsOf(next));
    for (const coded of [...keys, ...tenants]) await table.write(client, coded as KeyRow & TenantRow & Row);
    const detail = { ...entry.detail, ...changed.detail };
    return {
      value: changed.row,
      entry: { ...entry, detail, digest: table.digestOf(next), outcome: "granted" },
      committed: table.committed,
    };
  });
  if (result === "damaged") throw new VaultError("key_damaged");
  return result;
}

/**
 * Immediately stops a key from signing until a call enables it again. Cancels a request to enable the key
 * that waits for a second admin. Succeeds if the key already cannot sign.
 */
export type DisableKey = (
  caller: Caller,
  target: KeyTarget,
) => Promise<{ key_id: string; state: "disabled" } | Refusal>;

/** The tenant of the vault's own keys. These keys attest all other keys, so nobody can disable them. */
export const VAULT_TENANT = "vault";

/** Creates the operation that disables keys. */
export function createKeyDisabling(parts: KeyChangeParts & { clock: Clock }): DisableKey {
  return async (caller, target) => {
    const disabled = await changeKey(parts, target, { caller, statement: "key_disable" }, (row) => {
      if (row.tenant === VAULT_TENANT) {
        return refuse("policy_violation", "The vault's own key cannot be disabled");
      }
      const pending = row.pending?.action === "enable" ? null : row.pending;
      if (row.state !== "active") return { row: { ...row, pending } };
      return { row: { ...row, pending, state: "disabled", disabled_at: parts.clock.now() } };
    });
    return isRefusal(disabled) ? disabled : { key_id: disabled.key_id, state: "disabled" };
  };
}

/**
 * Narrows the ceiling stored with a key. Refuses with `policy_violation` if the new ceiling grants anything
 * that the stored ceiling does not. Certificates signed earlier do not change.
 */
export type ShrinkCeiling = (
  caller: Caller,
  target: KeyTarget,
  ceiling: string[],
) => Promise<{ key_id: string; ceiling: readonly string[] } | Refusal>;

/** Creates the operation that narrows ceilings. */
export function createCeilingShrinking(parts: KeyChangeParts): ShrinkCeiling {
  return async (caller, target, ceiling) => {
    const shrunk = await changeKey(parts, target, { caller, statement: "ceiling_shrink" }, (row) => {
      const beyond = row.purpose === "account_root" ? beyondCeiling : coversScopes;
      const wider = row.ceiling === null ? [] : beyond(row.ceiling, ceiling);
      if (wider.length === 0) return { row: { ...row, ceiling } };
      return refuse(
        "policy_violation",
        `The recorded ceiling does not grant ${wider.slice(0, 3).join(", ")}`,
      );
    });
    return isRefusal(shrunk) ? shrunk : { key_id: shrunk.key_id, ceiling: shrunk.ceiling ?? ceiling };
  };
}
