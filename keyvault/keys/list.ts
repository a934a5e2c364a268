import { available } from "../db/available.ts";
import type { Database } from "../db/database.ts";
import { joinedRow, type KeyStore, selectKeys } from "./store.ts";
import { type KeyView, viewKey } from "./view.ts";

/** One page of keys, oldest first; `next` continues after it and is null on the last page. */
export type KeyPage = { keys: ListedKey[]; next: string | null };

/**
 * A key in a list. `damaged`: its public key, attestation, tenant, purpose, state or ceiling, or its tenant's
 * state, is not as the vault wrote it.
 */
export type ListedKey = KeyView & { damaged: boolean };

/** Lists keys, of one tenant or of all, `limit` at a time after the key id `after`. */
export type ListKeys = (filter: { tenant?: string; after?: string; limit: number }) => Promise<KeyPage>;

/** Listing keys of a database. */
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
