import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import { DamagedBox } from "../token/messages.ts";
import { dataKeyContext, ownBytes } from "./wrapping.ts";

const DATA_KEY_BYTES = 32;
const KEPT_TENANTS = 512;
const KEPT_MS = 60_000;

/** A tenant's data key, wrapped by the token. */
export type WrappedDataKey = Pick<TenantRow, "tenant" | "kek" | "wrapped_data_key">;

/** Converts a stored data key to the form that the token accepts. */
export function boxOf({ tenant, kek, wrapped_data_key }: WrappedDataKey) {
  return { wrapped: { kek, box: wrapped_data_key }, context: dataKeyContext(tenant) };
}

/** Unwrapped data keys. Caches at most 512, each for at most a minute, and overwrites them afterwards. */
export type DataKeys = {
  /** Creates a wrapped data key for a tenant. Does not store it. */
  create(tenant: string): Promise<WrappedDataKey>;
  /**
   * Runs `work` with the unwrapped key, which `work` must not use after it returns, because the bytes may be
   * overwritten. Rejects with `VaultError key_damaged` if the stored key was altered, or `token_unavailable`.
   */
  use<T>(wrapped: WrappedDataKey, work: (dataKey: Uint8Array) => T): Promise<T>;
  /** Overwrites and empties the cache. A key that is being unwrapped now is used once and not cached. */
  clear(): void;
};

/** Returns the data keys that this token wraps. */
export function createDataKeys(token: Token): DataKeys {
  const kept = new LRUCache<string, Buffer>({
    max: KEPT_TENANTS,
    ttl: KEPT_MS,
    ttlAutopurge: true,
    dispose: (dataKey) => dataKey.fill(0),
  });

  let clears = 0;

  async function unwrap(key: WrappedDataKey): Promise<Uint8Array> {
    const { wrapped, context } = boxOf(key);
    try {
      return await token.unwrap(wrapped, context);
    } catch (error) {
      if (error instanceof DamagedBox) throw new VaultError("key_damaged", undefined, { cause: error });
      throw error;
    }
  }

  return {
    async create(tenant) {
      const dataKey = randomBytes(DATA_KEY_BYTES);
      try {
        const { kek, box } = await token.wrap(dataKey, dataKeyContext(tenant));
        return { tenant, kek, wrapped_data_key: Buffer.from(box) };
      } finally {
        dataKey.fill(0);
      }
    },

    async use(wrapped, work) {
      const name = `${wrapped.tenant}\n${wrapped.wrapped_data_key.toString("base64")}`;
      const known = kept.get(name);
      if (known !== undefined) return work(known);
      const before = clears;
      const fresh = await unwrap(wrapped);
      if (before === clears) kept.set(name, ownBytes(fresh));
      try {
        return work(fresh);
      } finally {
        fresh.fill(0);
      }
    },

    clear() {
      clears += 1;
      kept.clear();
    },
  };
}
