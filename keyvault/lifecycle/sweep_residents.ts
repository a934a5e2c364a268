import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import type { Database } from "../db/connection.ts";
import type { Seals } from "../keys/state.ts";
import { available, readKey } from "../keys/store.ts";
import type { Token } from "../token/client.ts";

/**
 * Destroys, in the token, the halves of keys and tenants that are destroyed, and those that were made for a key before `unfinishedBefore`
 * and never got it. Each with its record; gives how many labels. What is cut off is done by the next call. Nothing is destroyed on the
 * database's word alone: a destroyed key's or tenant's row must carry the token's code, and no record may tell of a key that got the label.
 * What the database says otherwise is on record as `failed`, and left.
 */
export type SweepResidents = (unfinishedBefore: Date) => Promise<number>;

/**
 * What database and token say of each other: ids of keys that sign no more because the token lacks their halves, and labels in the token
 * that the database does not know. Those are left alone: a database that was set back would cost keys.
 */
export type ResidentsCheck = { missing: string[]; unknown: string[] };

type Parts = {
  database: Database;
  journal: Pick<Journal, "change">;
  seals: Pick<Seals, "check">;
  token: Pick<Token, "destroyResident" | "listResidents">;
  settle(): Promise<void>;
};

const LOCAL: Caller = { role: "local", name: "residents" };
const BATCH = 500;
const SUPERFLUOUS = `
  FROM residents LEFT JOIN keys USING (key_id) LEFT JOIN tenants USING (tenant)
  WHERE (residents.key_id IS NULL AND residents.created_at <= ?) OR keys.state = 'destroyed' OR tenants.state = 'destroyed'`;

/** Sweeping on these parts. */
export function createResidentSweeping({ database, journal, seals, token, settle }: Parts): SweepResidents {
  async function isSuperfluous(client: pg.Client, label: string, keyId: string | null): Promise<boolean> {
    if (keyId === null) return !(await wasGiven(client, label));
    const found = await readKey(database, keyId);
    if (found === undefined) return false;
    const { key, tenant } = found;
    const [keyHolds, tenantHolds] = await seals.check({ keys: [key], tenants: [tenant] });
    return (
      (key.state === "destroyed" && keyHolds === true) ||
      (tenant.state === "destroyed" && tenantHolds === true)
    );
  }

  async function remove(label: string, keyId: string | null): Promise<boolean> {
    return journal.change(async (client: pg.Client): Promise<Change<boolean>> => {
      const { rowCount } = await client.query(
        "SELECT FROM residents WHERE label = $1 AND key_id IS NOT DISTINCT FROM $2 FOR UPDATE",
        [label, keyId],
      );
      if (rowCount === 0) return { value: false };
      const named = keyId === null ? {} : { keyId };
      const about = { caller: LOCAL, statement: "resident_erase", detail: { label }, ...named } as const;
      if (!(await isSuperfluous(client, label, keyId)))
        return { value: false, entry: { ...about, outcome: "failed" } };
      await token.destroyResident(label);
      await settle();
      await client.query("DELETE FROM residents WHERE label = $1", [label]);
      return { value: true, entry: { ...about, outcome: "granted" } };
    });
  }

  return async (unfinishedBefore) => {
    const { rows } = await available(() =>
      database.raw<{ rows: { label: string; key_id: string | null }[] }>(
        `SELECT residents.label, residents.key_id ${SUPERFLUOUS} LIMIT ${BATCH}`,
        [unfinishedBefore],
      ),
    );
    let removed = 0;
    for (const { label, key_id } of rows) if (await remove(label, key_id)) removed += 1;
    return removed;
  };
}

async function wasGiven(client: pg.Client, label: string): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT FROM audit WHERE detail ->> 'resident' = $1 AND detail ->> 'resident' IS NOT NULL
       AND outcome = 'granted' AND statement = 'key_create' LIMIT 1`,
    [label],
  );
  return rows.length > 0;
}

/** Compares database and token. Rejects with `VaultError unavailable` or `token_unavailable`. */
export async function checkResidents({
  database,
  token,
}: Pick<Parts, "database" | "token">): Promise<ResidentsCheck> {
  const [known, { labels }] = await Promise.all([
    available(() =>
      database<{ label: string; key_id: string | null }>("residents").select("label", "key_id"),
    ),
    token.listResidents(),
  ]);
  const [here, there] = [new Set(known.map(({ label }) => label)), new Set(labels)];
  return {
    missing: known.flatMap(({ label, key_id }) => (key_id !== null && !there.has(label) ? [key_id] : [])),
    unknown: labels.filter((label) => !here.has(label)),
  };
}
