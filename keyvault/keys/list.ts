import type { Database } from "../db/connection.ts";
import { available, type JoinedKeyRow, keyOf } from "./store.ts";
import { type KeyView, viewKey } from "./view.ts";

/** One page of keys, oldest first; `next` continues after it and is null on the last page. */
export type KeyPage = { keys: KeyView[]; next: string | null };

/** Lists keys, of one tenant or of all, `limit` at a time after the key id `after`. */
export type ListKeys = (filter: { tenant?: string; after?: string; limit: number }) => Promise<KeyPage>;

/** Listing keys of a database. */
export function createKeyListing({ database }: { database: Database }): ListKeys {
  return async ({ tenant, after, limit }) => {
    const query = database("keys")
      .join("tenants", "tenants.tenant", "keys.tenant")
      .orderBy("key_id")
      .limit(limit + 1);
    if (tenant !== undefined) query.where("keys.tenant", tenant);
    if (after !== undefined) query.where("key_id", ">", after);
    const rows = await available(() =>
      query.select<JoinedKeyRow[]>("keys.*", "tenants.kek", "tenants.wrapped_data_key"),
    );
    const keys = rows.slice(0, limit).map((row) => viewKey(keyOf(row)));
    return { keys, next: rows.length > limit ? (keys.at(-1)?.key_id ?? null) : null };
  };
}
