import { LRUCache } from "lru-cache";
import type { Database } from "../../db/database.ts";
import { type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import { equalPublicKeys, type HybridPublicKey } from "../../protocol/keys/hybrid.ts";

/** A root identity that this service trusts: the root key of one of its accounts. */
export type Root = { accountId: string; publicKey: HybridPublicKey };

/** Finds the root with this key id; nothing when no account has it. */
export type FindRoot = (humanId: string) => Promise<Root | undefined>;

/** What every key id looks like; other text is nobody's, and is not asked for. */
const KEY_ID = /^[0-9a-f]{32}$/;
const REMEMBERED_ROOTS = 10_000;

/**
 * Remembers found roots only: a root key never changes, while an unknown one may be made at any moment.
 * Concurrent questions about one root ask the database once.
 */
export function createRootFinder(db: Database): FindRoot {
  const roots = new LRUCache<string, Root>({
    max: REMEMBERED_ROOTS,
    fetchMethod: async (humanId) => {
      const row = await db("accounts")
        .select("account_id", "root_public_key")
        .where({ human_id: humanId })
        .first();
      return row?.root_public_key ? { accountId: row.account_id, publicKey: row.root_public_key } : undefined;
    },
  });
  return async (humanId) => (KEY_ID.test(humanId) ? roots.fetch(humanId) : undefined);
}

/** The found root, when the chain carries that root's very key. */
export function trustedRoot(found: Root | undefined, bundle: ProofBundle): Root | undefined {
  if (found === undefined) return undefined;
  return equalPublicKeys(rootCertificate(bundle).issuer_pub_key, found.publicKey) ? found : undefined;
}
