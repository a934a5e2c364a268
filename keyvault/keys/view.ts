import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";
import { available, type Database } from "../db/database.ts";
import {
  type Attestation,
  type KeyRow,
  type Purpose,
  type TenantRow,
  type Wish,
  wishOf,
} from "../db/rows.ts";
import { type Refusal, refuse } from "../errors.ts";
import { type JoinedKeyRow, joinedRow, type KeyStore, selectKeys } from "./store.ts";

/** The public parts of a key, as callers see them. Times are ISO 8601. */
export type KeyView = {
  key_id: string;
  tenant: string;
  purpose: Purpose;
  label: string;
  state: KeyRow["state"];
  /** State of the tenant. A key signs only while the key and its tenant are active. */
  tenant_state: TenantRow["state"];
  ceiling: readonly string[] | null;
  public_key: HybridPublicKey;
  /** A change that one admin requested and another has not approved yet. Null if none waits. */
  pending: Wish | null;
  /** When the seeds will be or were erased. Null unless the key is being destroyed or was destroyed. */
  destroy_at: string | null;
  attestation: Attestation;
  created_at: string;
};

function viewKey({ key, tenant }: JoinedKeyRow): KeyView {
  return {
    key_id: key.key_id,
    tenant: key.tenant,
    purpose: key.purpose,
    label: key.label,
    state: key.state,
    tenant_state: tenant.state,
    ceiling: key.ceiling,
    public_key: key.public_key,
    pending: wishOf(key.pending),
    destroy_at: key.destroy_at?.toISOString() ?? null,
    attestation: key.attestation,
    created_at: key.created_at.toISOString(),
  };
}

/** Returns the public parts of a key. If `tenant` is set, treats another tenant's key as missing. */
export type GetKey = (keyId: string, tenant: string | undefined) => Promise<KeyView | Refusal>;

/** Creates the operation that reads keys from a store. */
export function createKeyReading({ store }: { store: KeyStore }): GetKey {
  return async (keyId, tenant) => {
    const row = await store.read(keyId, tenant);
    return row === undefined ? refuse("key_not_found") : viewKey(row);
  };
}

/** A page of keys, sorted by id. `next` is the `after` of the next page, or null on the last page. */
export type KeyPage = { keys: ListedKey[]; next: string | null };

/**
 * A key in a list. `damaged` is true if the stored key differs from what the vault wrote: its public key,
 * attestation, tenant, purpose, state or ceiling, or the state of its tenant.
 */
export type ListedKey = KeyView & { damaged: boolean };

/**
 * Lists keys of one tenant or of all tenants, at most `limit` at a time, starting after the key id `after`.
 */
export type ListKeys = (filter: { tenant?: string; after?: string; limit: number }) => Promise<KeyPage>;

/** Creates the operation that lists keys. */
export function createKeyListing({
  database,
  store,
}: {
  database: Database;
  store: Pick<KeyStore, "checkRows">;
}): ListKeys {
  return async ({ tenant, after, limit }) => {
    const query = selectKeys(database)
      .orderBy("keys.key_id")
      .limit(limit + 1);
    if (tenant !== undefined) query.where("keys.tenant", tenant);
    if (after !== undefined) query.where("keys.key_id", ">", after);
    let more = false;
    const checked = await store.checkRows(async () => {
      const rows = await available(() => query);
      more = rows.length > limit;
      return rows.slice(0, limit).map(joinedRow);
    });
    const keys = checked.map(({ row, intact }) => ({ ...viewKey(row), damaged: !intact }));
    return { keys, next: more ? (keys.at(-1)?.key_id ?? null) : null };
  };
}
