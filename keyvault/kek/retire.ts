import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { type Refusal, refuse, VaultError } from "../errors.ts";
import type { KeyStore } from "../keys/store.ts";
import type { Token } from "../token/client.ts";

/**
 * Destroys an older version of the key-encryption key in the token, for good: whatever was wrapped under it, in old backups too, never opens
 * again. Refused with `policy_violation` for the newest version, one that the token does not have, and one under which a data key still is.
 *
 * That it begins is on record before the token is touched, and that it is done afterwards: cut off in between, the next try finishes it or
 * finds the version gone.
 */
export type RetireKek = (caller: Caller, kek: string) => Promise<Retired | Refusal>;

type Retired = { retired: string; keks: string[] };

/** Retiring on these parts; `settle` puts the token's loss on the disk. */
export function createKekRetirement(parts: {
  journal: Journal;
  token: Pick<Token, "info" | "retire">;
  store: Pick<KeyStore, "changed">;
  settle(): Promise<void>;
}): RetireKek {
  const { journal, token, store, settle } = parts;

  async function refusal(client: pg.Client, kek: string): Promise<Refusal | undefined> {
    const { keks } = token.info();
    if (!keks.includes(kek)) return refuse("policy_violation", `The token has no ${kek}`);
    if (keks.at(-1) === kek) return refuse("policy_violation", `${kek} is the newest version, which wraps`);
    const wrapped = await countWrapped(client, kek);
    return wrapped === 0
      ? undefined
      : refuse("policy_violation", `${kek} still wraps ${wrapped} data keys: rewrap them first`);
  }

  return async (caller, kek) => {
    const about = { caller, statement: "kek_retire" } as const;
    const begun = await journal.change(async (client): Promise<Change<Refusal | undefined>> => {
      const refused = await refusal(client, kek);
      const outcome = refused?.refused ?? ("granted" as const);
      const entry = { ...about, detail: { kek, step: "begun" }, outcome };
      return { value: refused, entry, committed: () => store.changed() };
    });
    if (begun !== undefined) return begun;
    const ended = await journal.change(async (client): Promise<Change<Retired | Refusal | VaultError>> => {
      const refused = await refusal(client, kek);
      const entry = { ...about, detail: { kek, step: "done" } };
      if (refused !== undefined) return { value: refused, entry: { ...entry, outcome: refused.refused } };
      try {
        const { keks } = await token.retire(kek);
        await settle();
        return { value: { retired: kek, keks }, entry: { ...entry, outcome: "granted" } };
      } catch (error) {
        const fault =
          error instanceof VaultError ? error : new VaultError("internal", undefined, { cause: error });
        return { value: fault, entry: { ...entry, outcome: "failed" } };
      }
    });
    if (ended instanceof VaultError) throw ended;
    return ended;
  };
}

async function countWrapped(client: pg.Client, kek: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    "SELECT count(*) AS count FROM tenants WHERE kek = $1 AND state <> 'destroyed'",
    [kek],
  );
  return rows[0]?.count ?? 0;
}
