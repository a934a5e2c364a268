import { timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { ApiKeyCaller } from "../../route.ts";
import { apiKeyPrefix, hashApiKey } from "./api_key.ts";
import { listenForApiKeyChanges } from "./api_key_changes.ts";

const REMEMBERED_SECONDS = 5;
const REMEMBERED_KEYS = 10_000;

type KnownKey = { hash: Uint8Array; retiresAt: Date | null; caller: ApiKeyCaller };
type Remembered = { key: KnownKey; until: Date };

/** Finds the caller behind an API key. */
export type ApiKeyFinder = {
  /**
   * The connection that a presented key belongs to; `undefined` for text that is not a key, an unknown key, a
   * wrong secret, a retired key or a removed connection. Rejects when the database is away and the key is not
   * remembered.
   */
  find(presented: string): Promise<ApiKeyCaller | undefined>;
  /** Drops keys that this process has just changed and committed, without waiting to hear of it. */
  forget(keyPrefixes: readonly string[]): void;
  close(): Promise<void>;
};

/**
 * Keys are looked up by prefix, compared as SHA-256 in constant time, and remembered for up to 5 seconds,
 * only while changes are listened for; a change drops the key as soon as it is heard of. `url` opens the
 * connection that listens.
 */
export function createApiKeyFinder(deps: {
  db: Database;
  clock: Clock;
  url: string;
  onError: (error: Error) => void;
}): ApiKeyFinder {
  const { db, clock } = deps;
  const remembered = new LRUCache<string, Remembered>({ max: REMEMBERED_KEYS });
  let listening = false;
  /** Grows with every change, so that a look-up which began before a change is not remembered after it. */
  let heard = 0;

  function forget(keyPrefixes: readonly string[]): void {
    heard += 1;
    for (const prefix of keyPrefixes) remembered.delete(prefix);
  }

  const changes = listenForApiKeyChanges(deps, {
    onListening() {
      listening = true;
    },
    onChange(keyPrefix) {
      forget([keyPrefix]);
    },
    onDeaf() {
      heard += 1;
      listening = false;
      remembered.clear();
    },
  });

  async function knownKey(prefix: string): Promise<KnownKey | undefined> {
    const now = clock.now();
    const known = remembered.get(prefix);
    if (known !== undefined && now < known.until) return known.key;
    const heardBefore = listening ? heard : undefined;
    const key = await readKey(db, prefix);
    if (key !== undefined && listening && heardBefore === heard) {
      remembered.set(prefix, { key, until: addSeconds(now, REMEMBERED_SECONDS) });
    }
    return key;
  }

  return {
    async find(presented) {
      const prefix = apiKeyPrefix(presented);
      if (prefix === undefined) return undefined;
      const key = await knownKey(prefix);
      if (key === undefined || !timingSafeEqual(hashApiKey(presented), key.hash)) return undefined;
      if (key.retiresAt !== null && clock.now() >= key.retiresAt) return undefined;
      return key.caller;
    },
    forget,
    close: () => changes.close(),
  };
}

type KeyRow = {
  key_hash: Buffer;
  retires_at: Date | null;
  account_id: string;
  connection_id: string;
  verifier_id: string;
  registry_answers: boolean;
};

async function readKey(db: Database, prefix: string): Promise<KnownKey | undefined> {
  const row: KeyRow | undefined = await db("api_keys as k")
    .join("connections as c", "c.connection_id", "k.connection_id")
    .where({ "k.key_prefix": prefix })
    .whereNull("c.removed_at")
    .first(
      "k.key_hash",
      "k.retires_at",
      "k.account_id",
      "k.connection_id",
      "c.verifier_id",
      "c.registry_answers",
    );
  return (
    row && {
      // The driver's bytes are a piece of what it read from the socket, and would keep all of that.
      hash: new Uint8Array(row.key_hash),
      retiresAt: row.retires_at,
      caller: {
        accountId: row.account_id,
        connectionId: row.connection_id,
        keyPrefix: prefix,
        verifierId: row.verifier_id,
        registryAnswers: row.registry_answers,
      },
    }
  );
}
