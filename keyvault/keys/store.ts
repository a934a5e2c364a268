import { LRUCache } from "lru-cache";
import type { HybridPublicKey } from "../../src/protocol/hybrid.ts";
import type { Database } from "../db/connection.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import { type Attestation, verifyAttestation } from "./attestation.ts";
import type { KeptKey } from "./custody.ts";
import type { WrappedDataKey } from "./data_keys.ts";

const KEPT_KEYS = 10_000;
const KEPT_MS = 60_000;

/** A key as the operations see it. `ceiling` bounds every delegation the key issues or receives; null sets no bound. */
export type Key = KeptKey & {
  label: string;
  state: KeyRow["state"];
  ceiling: readonly string[] | null;
  attestation: Attestation;
  createdAt: Date;
};

/** A stored row with its tenant's data key. */
export type JoinedKeyRow = KeyRow & Pick<TenantRow, "kek" | "wrapped_data_key">;

/**
 * Keys by id, remembered for up to a minute. Only this process changes them (it holds the ledger), and every change calls
 * {@link KeyStore.changed}, so what is remembered is what is stored.
 */
export type KeyStore = {
  /**
   * The key, its attestation checked; undefined when there is none.
   * Rejects with `VaultError key_damaged` when the row is not what the service key attested, `unavailable` without a database.
   */
  find(keyId: string): Promise<Key | undefined>;
  /** Counts up whenever something that was read before may no longer be true. */
  version(): number;
  /** Forgets what is remembered of a key, or of all. */
  changed(keyId?: string): void;
};

/** A store that trusts the keys attested by `service`. */
export function createKeyStore(database: Database, service: () => HybridPublicKey): KeyStore {
  const kept = new LRUCache<string, Key>({ max: KEPT_KEYS, ttl: KEPT_MS });
  let version = 0;

  return {
    async find(keyId) {
      const known = kept.get(keyId);
      if (known !== undefined) return known;
      const before = version;
      const row = await readKey(database, keyId);
      if (row === undefined) return undefined;
      const key = keyOf(row);
      if (!(await verifyAttestation(key.attestation, key, service()))) throw new VaultError("key_damaged");
      if (before === version) kept.set(keyId, key);
      return key;
    },
    version: () => version,
    changed(keyId) {
      version += 1;
      if (keyId === undefined) kept.clear();
      else kept.delete(keyId);
    },
  };
}

/** A tenant's wrapped data key, or undefined before its first key. */
export async function readTenant(database: Database, tenant: string): Promise<WrappedDataKey | undefined> {
  return available(() =>
    database<TenantRow>("tenants").where({ tenant }).first("tenant", "kek", "wrapped_data_key"),
  );
}

/** One stored key with what opens it, or undefined. */
export async function readKey(database: Database, keyId: string): Promise<JoinedKeyRow | undefined> {
  return available(() =>
    database("keys")
      .join("tenants", "tenants.tenant", "keys.tenant")
      .where({ key_id: keyId })
      .first<JoinedKeyRow>("keys.*", "tenants.kek", "tenants.wrapped_data_key"),
  );
}

/** A row in the operations' terms. */
export function keyOf(row: JoinedKeyRow): Key {
  return {
    keyId: row.key_id,
    tenant: row.tenant,
    purpose: row.purpose,
    publicKey: row.public_key,
    version: row.seeds_version,
    wrappedSeeds: row.wrapped_seeds,
    dataKey: { tenant: row.tenant, kek: row.kek, wrapped_data_key: row.wrapped_data_key },
    label: row.label,
    state: row.state,
    ceiling: row.ceiling,
    attestation: row.attestation,
    createdAt: row.created_at,
  };
}

/** Runs a read; any failure of the database becomes `VaultError unavailable`. */
export async function available<T>(read: () => PromiseLike<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new VaultError("unavailable", undefined, { cause: error });
  }
}
