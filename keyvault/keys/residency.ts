import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Clock } from "../clock.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Token } from "../token/client.ts";
import type { Half } from "../token/messages.ts";

/** Halves that were made in the token for a key that is not stored yet. */
export type Resident = { label: string; publicKeys: Partial<Record<Half, Uint8Array>> };

/** Room for keys in the token. */
export type Residency = {
  /**
   * Makes the halves that the token offers, or refuses: when resident keys are switched off, the token offers no Ed25519, or holds as many
   * as it may. Their label is in the database before they are in the token, and they are on disk when this resolves.
   */
  make(): Promise<Resident | Refusal>;
  /** Gives a label its key; to be called in the transaction that stores the key. */
  occupy(client: pg.Client, label: string, keyId: string): Promise<void>;
  /** Destroys the halves of a label that has got no key; one that has is left as it is. Never rejects: a later sweep finds what it leaves. */
  abandon(label: string): Promise<void>;
};

/** What residency needs. `settle` puts what the token wrote on the disk; a `limit` of 0 switches it off. */
export type ResidencyParts = {
  journal: Pick<Journal, "change">;
  token: Pick<Token, "info" | "createResident" | "destroyResident">;
  clock: Clock;
  log: Logger;
  limit: number;
  settle(): Promise<void>;
};

/** Residency on these parts. The token is only ever changed in a turn of the journal, so that a backup has it whole. */
export function createResidency({ journal, token, clock, log, limit, settle }: ResidencyParts): Residency {
  async function reserve(label: string): Promise<Refusal | undefined> {
    return journal.change(async (client): Promise<Change<Refusal | undefined>> => {
      const { rowCount } = await client.query("SELECT FROM residents LIMIT $1", [limit]);
      if ((rowCount ?? 0) >= limit)
        return { value: refuse("policy_violation", `The token keeps ${limit} resident keys already`) };
      await client.query("INSERT INTO residents (label, created_at) VALUES ($1, $2)", [label, clock.now()]);
      return { value: undefined };
    });
  }

  return {
    async make() {
      const halves = token.info().resident;
      if (limit === 0) return refuse("policy_violation", "This vault keeps no resident keys");
      if (!halves.includes("ed25519"))
        return refuse("policy_violation", "The token cannot keep resident keys: it lacks CKM_EDDSA");
      const label = `key-${randomBytes(16).toString("hex")}`;
      const refusal = await reserve(label);
      if (refusal !== undefined && isRefusal(refusal)) return refusal;
      const publicKeys = await journal.change(async () => {
        const value = await token.createResident(label, halves);
        await settle();
        return { value };
      });
      return { label, publicKeys };
    },

    async occupy(client, label, keyId) {
      await client.query("UPDATE residents SET key_id = $2 WHERE label = $1", [label, keyId]);
    },

    async abandon(label) {
      try {
        await journal.change(async (client) => {
          const { rowCount } = await client.query(
            "SELECT FROM residents WHERE label = $1 AND key_id IS NULL FOR UPDATE",
            [label],
          );
          if (rowCount === 0) return { value: undefined };
          await token.destroyResident(label);
          await settle();
          await client.query("DELETE FROM residents WHERE label = $1", [label]);
          return { value: undefined };
        });
      } catch (error) {
        log.warn({
          event: "resident_left",
          label,
          reason: error instanceof Error ? error.message : "unknown",
        });
      }
    },
  };
}
