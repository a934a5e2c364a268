import { LRUCache } from "lru-cache";
import type { Database } from "../db/connection.ts";
import type { HybridPublicKey } from "../protocol/hybrid.ts";

/** A root identity that this service trusts: the root key of one of its accounts. */
export type Root = { accountId: string; publicKey: HybridPublicKey };

/** Finds the root with this key id; nothing when no account has it. */
export type FindRoot = (humanId: string) => Promise<Root | undefined>;

const REMEMBERED_ROOTS = 10_000;

/** Remembers found roots only: a root key never changes, while an unknown one may be made at any moment. */
export function createRootFinder(db: Database): FindRoot {
  const remembered = new LRUCache<string, Root>({ max: REMEMBERED_ROOTS });
  return async (humanId) => {
    const known = remembered.get(humanId);
    if (known) return known;
    const row = await db("accounts")
      .select("account_id", "root_public_key")
      .where({ human_id: humanId })
      .first();
    if (!row?.root_public_key) return undefined;
    const root = { accountId: row.account_id, publicKey: row.root_public_key };
    remembered.set(humanId, root);
    return root;
  };
}
