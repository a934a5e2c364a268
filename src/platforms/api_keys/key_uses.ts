import { LRUCache } from "lru-cache";
import { addSeconds } from "../../clock.ts";
import { atMost } from "../../concurrency/at_most.ts";
import type { Database } from "../../db/database.ts";

/** A stored time of use is at most this much older than the last use, until the next write. */
const PRECISION_SECONDS = 300;
const REMEMBERED_KEYS = 10_000;

/** Notes when API keys are used. */
export type KeyUses = {
  /** Notes a use in memory. No call waits for the database. */
  note(keyPrefix: string, now: Date): void;
  /** Stores the noted uses with one statement. */
  write(): Promise<void>;
};

/**
 * Stores uses of keys in the background, for each key at most once in five minutes. If another replica has
 * stored a later use, the row stays as it is. If 10,000 keys wait to be stored, uses of further keys are not
 * noted.
 */
export function createKeyUses(db: Database): KeyUses {
  const noted = new LRUCache<string, Date>(atMost(REMEMBERED_KEYS));
  const waiting = new Map<string, Date>();
  return {
    note(keyPrefix, now) {
      const last = noted.get(keyPrefix);
      if (last !== undefined && now < addSeconds(last, PRECISION_SECONDS)) return;
      if (waiting.size >= REMEMBERED_KEYS) return;
      noted.set(keyPrefix, now);
      waiting.set(keyPrefix, now);
    },
    async write() {
      const uses = [...waiting];
      if (uses.length === 0) return;
      await db.raw(
        `insert into key_uses as known (key_prefix, used_at)
         select * from unnest(:prefixes::text[], :times::timestamptz[]) as used (key_prefix, used_at) order by 1
         on conflict (key_prefix) do update set used_at = excluded.used_at
         where known.used_at < excluded.used_at`,
        {
          prefixes: uses.map(([prefix]) => prefix),
          times: uses.map(([, time]) => time.toISOString()),
        },
      );
      for (const [prefix, time] of uses) if (waiting.get(prefix) === time) waiting.delete(prefix);
    },
  };
}
