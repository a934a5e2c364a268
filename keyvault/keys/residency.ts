import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import type { Register } from "../audit/register/register.ts";
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
   * Makes the halves that the token offers, or refuses: when resident keys are switched off, the token offers
   * no Ed25519, or holds as many as it may. Their label is in the audit before they are in the token, and
   * they are on disk when this resolves.
   */
  make(): Promise<Resident | Refusal>;
  /** Gives a label its key; to be called in the transaction that stores the key. */
  occupy(client: pg.Client, label: string, keyId: string): Promise<void>;
  /**
   * Destroys the halves of a label that has got no key; one that has is left as it is. Never rejects: a later
   * sweep finds what it leaves.
   */
  abandon(label: string): Promise<void>;
  /** Whether a key is just being made around the halves of this label. */
  isUnderWay(label: string): boolean;
};

/** What residency needs. `flush` puts what the token wrote on the disk; a `limit` of 0 switches it off. */
export type ResidencyParts = {
  journal: Pick<Journal, "change">;
  token: Pick<Token, "info" | "createResident" | "destroyResident">;
  register: Pick<Register, "residents">;
  clock: Clock;
  log: Logger;
  limit: number;
  flush(): Promise<void>;
};

const LOCAL: Caller = { role: "local", name: "residents" };

/**
 * Residency on these parts. The token is only ever changed in a turn of the journal, so that a backup has it
 * whole.
 */
export function createResidency(parts: ResidencyParts): Residency {
  const { journal, token, register, clock, log, limit, flush } = parts;
  const underWay = new Set<string>();

  async function reserve(label: string): Promise<Refusal | undefined> {
    return journal.change(async (client): Promise<Change<Refusal | undefined>> => {
      if (register.residents().size >= limit) {
        return { value: refuse("policy_violation", `The token keeps ${limit} resident keys already`) };
      }
      await client.query("insert into residents (label, created_at) values ($1, $2)", [label, clock.now()]);
      const entry = { caller: LOCAL, statement: "resident_make", detail: { label } } as const;
      return { value: undefined, entry: { ...entry, outcome: "granted" } };
    });
  }

  async function makeHalves(label: string, halves: readonly Half[]): Promise<Resident | Refusal> {
    const refusal = await reserve(label);
    if (refusal !== undefined) return refusal;
    const publicKeys = await journal.change(async () => {
      const value = await token.createResident(label, halves);
      await flush();
      return { value };
    });
    return { label, publicKeys };
  }

  return {
    async make() {
      const halves = token.info().resident;
      if (limit === 0) return refuse("policy_violation", "This vault keeps no resident keys");
      if (!halves.includes("ed25519")) {
        return refuse("policy_violation", "The token cannot keep resident keys: it lacks CKM_EDDSA");
      }
      const label = `key-${randomBytes(16).toString("hex")}`;
      underWay.add(label);
      let made = false;
      try {
        const resident = await makeHalves(label, halves);
        made = !isRefusal(resident);
        return resident;
      } finally {
        if (!made) underWay.delete(label);
      }
    },

    isUnderWay: (label) => underWay.has(label),

    async occupy(client, label, keyId) {
      await client.query("update residents set key_id = $2 where label = $1", [label, keyId]);
    },

    async abandon(label) {
      try {
        await journal.change(async (client): Promise<Change<void>> => {
          const residents = register.residents();
          if (!residents.has(label) || residents.get(label) !== undefined) return { value: undefined };
          await token.destroyResident(label);
          await flush();
          await client.query("delete from residents where label = $1", [label]);
          const entry = { caller: LOCAL, statement: "resident_erase", detail: { label } } as const;
          return { value: undefined, entry: { ...entry, outcome: "granted" } };
        });
      } catch (error) {
        log.warn({
          event: "resident_left",
          label,
          reason: error instanceof Error ? error.message : "unknown",
        });
      } finally {
        underWay.delete(label);
      }
    },
  };
}
