import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import type { Register } from "../audit/register/register.ts";
import type { ResidentKey } from "../audit/register/register_parts.ts";
import type { Residency } from "../keys/residency.ts";
import type { Token } from "../token/client.ts";

/**
 * Destroys, in the token, the halves of keys and tenants that are erased, and those that were made for a key
 * that never got them. Each with its record; returns how many labels. The next call continues where this one
 * was interrupted. Which these are the verified audit says, and no row does.
 */
export type SweepResidents = () => Promise<number>;

/**
 * What the audit and the token say of each other: ids of keys that sign no more because the token lacks their
 * halves, and labels in the token that no record mentions. Those are left alone: an audit that was set back
 * would cost keys.
 */
export type ResidentsCheck = { missing: string[]; unknown: string[] };

type Parts = {
  journal: Pick<Journal, "change">;
  register: Pick<Register, "residents" | "isErased">;
  residency: Pick<Residency, "isUnderWay">;
  token: Pick<Token, "destroyResident" | "listResidents">;
  flush(): Promise<void>;
};

const LOCAL: Caller = { role: "local", name: "residents" };

/** Sweeping on these parts. */
export function createResidentSweeping({
  journal,
  register,
  residency,
  token,
  flush,
}: Parts): SweepResidents {
  function isSuperfluous(label: string, owner: ResidentKey): boolean {
    if (owner === undefined) return !residency.isUnderWay(label);
    return register.isErased("key", owner.keyId) || register.isErased("tenant", owner.tenant);
  }

  async function remove(label: string): Promise<boolean> {
    return journal.change(async (client: pg.Client): Promise<Change<boolean>> => {
      const residents = register.residents();
      const owner = residents.get(label);
      if (!residents.has(label) || !isSuperfluous(label, owner)) return { value: false };
      await token.destroyResident(label);
      await flush();
      await client.query("delete from residents where label = $1", [label]);
      const about = { caller: LOCAL, statement: "resident_erase", detail: { label } } as const;
      const named = owner === undefined ? {} : { keyId: owner.keyId };
      return { value: true, entry: { ...about, ...named, outcome: "granted" } };
    });
  }

  return async () => {
    const superfluous = [...register.residents()].filter(([label, owner]) => isSuperfluous(label, owner));
    let removed = 0;
    for (const [label] of superfluous) if (await remove(label)) removed += 1;
    return removed;
  };
}

/** Compares audit and token. Rejects with `VaultError token_unavailable`. */
export async function checkResidents({
  register,
  token,
}: Pick<Parts, "register" | "token">): Promise<ResidentsCheck> {
  const { labels } = await token.listResidents();
  const there = new Set(labels);
  const known = [...register.residents()];
  return {
    missing: known.flatMap(([label, owner]) =>
      owner === undefined || there.has(label) ? [] : [owner.keyId],
    ),
    unknown: labels.filter((label) => !register.residents().has(label)),
  };
}
