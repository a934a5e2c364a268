import { timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import { addSeconds, type Clock } from "../../clock.ts";
import { atMost } from "../../concurrency/at_most.ts";
import type { Database } from "../../db/database.ts";
import type { ExplanationValues } from "../../input/platform_fields.ts";
import type { ApiKeyCaller, KeyRole } from "../../route.ts";
import { apiKeyPrefix, hashApiKey, isFullPrefix } from "./api_key.ts";
import { type ChangesDeps, listenForApiKeyChanges } from "./api_key_changes.ts";
import { createKeyUses } from "./key_uses.ts";

const REMEMBERED_SECONDS = 5;
/** A key in use is read again this long before its cache entry expires, so no call waits for that read. */
const RENEWED_BEFORE_SECONDS = 2;
const REMEMBERED_KEYS = 10_000;
/** Calls join a running lookup for this many seconds, so that a hanging lookup does not delay all calls. */
const JOINED_SECONDS = 0.25;

type KnownKey = { hash: Uint8Array; retiresAt: Date | null; caller: ApiKeyCaller };
type Times = { renewAt: Date; until: Date };
type Remembered = Times & { key: KnownKey };
/**
 * `changeCount` is the change counter at the lookup's start, or `undefined` if nobody listened for changes.
 */
type LookUp = Times & {
  joinedUntil: Date;
  changeCount: number | undefined;
  key: Promise<KnownKey | undefined>;
};

/** Finds the caller behind an API key. */
export type ApiKeyFinder = {
  /**
   * Returns `undefined` for a malformed or unknown key, a wrong secret, a retired key or a removed
   * connection. Rejects if the database is unavailable and the key is not cached.
   */
  find(presented: string): Promise<ApiKeyCaller | undefined>;
  /** Drops keys that this process has just changed and committed, without waiting for the notification. */
  forget(keyPrefixes: readonly string[]): void;
  /** Stores when keys were used, as {@link createKeyUses} says. */
  writeUses(): Promise<void>;
  /** Stores the last uses of keys, and stops. Never rejects. */
  close(): Promise<void>;
};

/**
 * Creates a finder that looks keys up by prefix and compares their SHA-256 in constant time. It caches a key
 * for up to 5 seconds, but only while it receives change notifications, which remove the changed key
 * immediately.
 *
 * Concurrent calls with the same key share a lookup. If the shared lookup fails, or a change arrives before
 * it completes, each call that joined it looks the key up once more. `url` is the database URL for the
 * listening connection.
 */
export function createApiKeyFinder(deps: { db: Database; clock: Clock } & ChangesDeps): ApiKeyFinder {
  const { db, clock } = deps;
  const uses = createKeyUses(db);
  const remembered = new LRUCache<string, Remembered>(atMost(REMEMBERED_KEYS));
  const lookUps = new Map<string, LookUp>();
  let listening = false;
  /** Counts changes, so that the result of a lookup that began before a change is not cached. */
  let changeCount = 0;

  function forget(keyPrefixes: readonly string[]): void {
    changeCount += 1;
    for (const prefix of keyPrefixes) remembered.delete(prefix);
  }

  const changes = listenForApiKeyChanges(deps, {
    onListening() {
      listening = true;
    },
    onChange(keyPrefix) {
      forget([keyPrefix]);
    },
    onInterrupted() {
      changeCount += 1;
      listening = false;
      remembered.clear();
    },
  });

  async function knownKey(prefix: string): Promise<KnownKey | undefined> {
    const now = clock.now();
    const known = remembered.get(prefix);
    if (known === undefined || now >= known.until) return lookUp(prefix, now);
    // If the lookup fails, the current cache entry simply expires.
    if (now >= known.renewAt && !lookUps.has(prefix)) begin(prefix, now).key.catch(() => {});
    return known.key;
  }

  async function lookUp(prefix: string, now: Date, isAgain = false): Promise<KnownKey | undefined> {
    const underWay = lookUps.get(prefix);
    if (underWay === undefined || underWay.changeCount !== changeCount || now >= underWay.joinedUntil) {
      return begin(prefix, now).key;
    }
    if (isAgain) return underWay.key;
    const [joined] = await Promise.allSettled([underWay.key]);
    if (joined.status === "fulfilled" && underWay.changeCount === changeCount) return joined.value;
    return lookUp(prefix, clock.now(), true);
  }

  function begin(prefix: string, now: Date): LookUp {
    const begun: LookUp = {
      ...timesFrom(now),
      joinedUntil: addSeconds(now, JOINED_SECONDS),
      changeCount: listening ? changeCount : undefined,
      key: read(),
    };
    lookUps.set(prefix, begun);
    return begun;

    async function read(): Promise<KnownKey | undefined> {
      try {
        const key = await readKey(db, prefix);
        const { renewAt, until } = begun;
        if (key !== undefined && begun.changeCount === changeCount) {
          remembered.set(prefix, { renewAt, until, key });
        }
        return key;
      } finally {
        if (lookUps.get(prefix) === begun) lookUps.delete(prefix);
      }
    }
  }

  return {
    async find(presented) {
      const prefix = apiKeyPrefix(presented);
      if (prefix === undefined) return undefined;
      const key = await knownKey(prefix);
      if (key === undefined || !timingSafeEqual(hashApiKey(presented), key.hash)) return undefined;
      const now = clock.now();
      if (key.retiresAt !== null && now >= key.retiresAt) return undefined;
      uses.note(prefix, now);
      return key.caller;
    },
    forget,
    writeUses: uses.write,
    async close() {
      await changes.close();
      await uses.write().catch(deps.onError);
    },
  };
}

function timesFrom(now: Date): Times {
  const until = addSeconds(now, REMEMBERED_SECONDS);
  return { renewAt: addSeconds(until, -RENEWED_BEFORE_SECONDS), until };
}

type KeyRow = {
  key_hash: Buffer;
  retires_at: Date | null;
  role: KeyRole;
  agent_id: string | null;
  account_id: string;
  customer_account_id: string | null;
  connection_id: string;
  verifier_id: string;
  registry_answers: boolean;
  explanation_values: ExplanationValues;
};

async function readKey(db: Database, prefix: string): Promise<KnownKey | undefined> {
  const row: KeyRow | undefined = await keyRow(db, prefix)
    .join("connections as c", "c.connection_id", "k.connection_id")
    .where({ "k.key_prefix": prefix })
    .whereNull("c.removed_at")
    .first(
      "k.key_hash",
      "k.account_id",
      "k.connection_id",
      "c.customer_account_id",
      "c.verifier_id",
      "c.registry_answers",
      "c.explanation_values",
    );
  return (
    row && {
      // Copies the hash. The driver's slice of its socket buffer would keep the whole buffer in memory.
      hash: new Uint8Array(row.key_hash),
      retiresAt: row.retires_at,
      caller: {
        accountId: row.account_id,
        principalAccountId: row.customer_account_id ?? row.account_id,
        isCustomer: row.customer_account_id !== null,
        connectionId: row.connection_id,
        keyPrefix: prefix,
        role: row.role,
        agentId: row.agent_id,
        verifierId: row.verifier_id,
        registryAnswers: row.registry_answers,
        explanationValues: row.explanation_values,
      },
    }
  );
}

/**
 * Selects from the table of the prefix's role. The database ends narrow keys together with their agent. An
 * ended narrow key is invalid even if this process's clock is behind the clock that wrote the end.
 */
function keyRow(db: Database, prefix: string) {
  return isFullPrefix(prefix)
    ? db("api_keys as k").select("k.retires_at", db.raw("'full' as role, null as agent_id"))
    : db("narrow_keys as k").whereNull("k.ended_at").select("k.retires_at", "k.role", "k.agent_id");
}
