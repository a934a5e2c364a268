import { type Refusal, refuse } from "../errors.ts";
import type { KeyStore } from "./store.ts";
import { type KeyView, viewKey } from "./view.ts";

/**
 * The public parts of a key. With a `tenant`, another tenant's key is answered like one that does not exist.
 */
export type GetKey = (keyId: string, tenant: string | undefined) => Promise<KeyView | Refusal>;

/** Reading keys of a store. */
export function createKeyReading({ store }: { store: KeyStore }): GetKey {
  return async (keyId, tenant) => {
    const row = await store.read(keyId, tenant);
    return row === undefined ? refuse("key_not_found") : viewKey(row);
  };
}
