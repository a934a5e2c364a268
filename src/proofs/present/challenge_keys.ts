import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Database } from "../../db/database.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { ChallengeKey } from "./challenge.ts";

/** The daily keys that all replicas share. */
export type ChallengeKeys = {
  /** The key to issue with on a day; made by the first replica that needs it. */
  forIssuing(day: number, now: Date): Promise<ChallengeKey>;
  /** The key of a day, if one was ever made. */
  find(day: number): Promise<ChallengeKey | undefined>;
};

/** Days kept in memory: today, yesterday, and one for clocks that differ. */
const REMEMBERED_DAYS = 3;

/**
 * Keys kept sealed in Postgres and remembered here; a key never changes once made, so remembering is safe.
 * Concurrent questions about one day ask the database once.
 */
export function createChallengeKeys({
  db,
  secretBox,
}: {
  db: Database;
  secretBox: SecretBox;
}): ChallengeKeys {
  const keys = new LRUCache<number, ChallengeKey>({
    max: REMEMBERED_DAYS,
    fetchMethod: async (day) => {
      const row = await db("challenge_keys").where({ day }).first();
      return (
        row && { day, secret: Buffer.from(secretBox.unbox(row.secret_sealed, contextOf(day)), "base64") }
      );
    },
  });

  return {
    find: (day) => keys.fetch(day),
    async forIssuing(day, now) {
      const known = await keys.fetch(day);
      if (known) return known;
      const sealed = secretBox.box(randomBytes(32).toString("base64"), contextOf(day));
      await db("challenge_keys")
        .insert({ day, secret_sealed: sealed, created_at: now })
        .onConflict("day")
        .ignore();
      const made = await keys.fetch(day);
      if (!made) throw new Error("The challenge key could not be stored");
      return made;
    },
  };
}

function contextOf(day: number): string {
  return `challenge_keys/${day}`;
}
