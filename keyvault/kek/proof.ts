import { hash } from "node:crypto";
import type pg from "pg";
import { available, type Database } from "../db/database.ts";
import type { TenantRow } from "../db/rows.ts";
import { boxOf, type WrappedDataKey } from "../keys/data_keys.ts";
import { isDataKeyRow } from "../keys/wrapping.ts";
import type { Token } from "../token/client.ts";

/**
 * Tenants whose data key opens only under the version to retire (`needed`), or under no version (`unopened`).
 */
export type Unproven = { needed: string[]; unopened: string[] };

/**
 * The proof that no stored data key needs a version of the key-encryption key. The proof ignores the version
 * that the database names. Instead, the token's process opens every data key under a version that remains. A
 * proven data key stays proven, because a wrapped key opens under one version only.
 */
export type RetirementProof = {
  /** Adds all data keys that `read` returns to the proof. `onProgress` receives the number checked so far. */
  extend(read: ReadDataKeys, onProgress: (seen: number) => void): Promise<Unproven>;
  /**
   * Returns the data keys from `read` that are not proven yet, or `undefined` if there are more than `most`.
   */
  rest(read: ReadDataKeys, most: number): Promise<WrappedDataKey[] | undefined>;
  prove(rows: readonly WrappedDataKey[]): Promise<Unproven>;
};

/** Number of data keys in one message to the token. A message delays other calls by a few milliseconds. */
const BATCH = 250;
const READ_BATCH = 2_000;
const FINGERPRINT_BYTES = 16;
/** Version names are cut to this length. A longer name would make the whole message with all rows fail. */
const MAX_KEK_LENGTH = 32;

/** Returns an empty proof for the retirement of the version `retiring`. */
export function createRetirementProof(token: Pick<Token, "findVersions">, retiring: string): RetirementProof {
  const proven = new Set<string>();
  const isNew = (row: WrappedDataKey): boolean => !proven.has(fingerprint(row));

  async function prove(rows: readonly WrappedDataKey[]): Promise<Unproven> {
    const whole = rows.filter(isDataKeyRow);
    const versions = await token.findVersions(
      whole.map((row) => boxOf({ ...row, kek: row.kek.slice(0, MAX_KEK_LENGTH) })),
    );
    const found = new Map(whole.map((row, index) => [row, versions[index] ?? null]));
    const unproven: Unproven = { needed: [], unopened: [] };
    for (const row of rows) {
      const version = found.get(row) ?? null;
      if (version === null) {
        unproven.unopened.push(row.tenant);
      } else if (version === retiring) {
        unproven.needed.push(row.tenant);
      } else {
        proven.add(fingerprint(row));
      }
    }
    return unproven;
  }

  return {
    prove,
    async extend(read, onProgress) {
      const all: Unproven = { needed: [], unopened: [] };
      let seen = 0;
      for await (const page of pages(read, BATCH)) {
        const { needed, unopened } = await prove(page.filter(isNew));
        all.needed.push(...needed);
        all.unopened.push(...unopened);
        seen += page.length;
        onProgress(seen);
      }
      return all;
    },
    async rest(read, most) {
      const rest: WrappedDataKey[] = [];
      for await (const page of pages(read, READ_BATCH)) {
        rest.push(...page.filter(isNew));
        if (rest.length > most) return undefined;
      }
      return rest;
    },
  };
}

async function* pages(read: ReadDataKeys, limit: number): AsyncGenerator<readonly WrappedDataKey[]> {
  for (let page = await read(undefined, limit); page.length > 0; ) {
    yield page;
    page = await read(page.at(-1)?.tenant, limit);
  }
}

/**
 * Returns a hash of a data key and its tenant. Omits the version that the database names, because that name
 * proves nothing.
 */
function fingerprint({ tenant, wrapped_data_key }: WrappedDataKey): string {
  const name = Buffer.from(`${tenant.length}:${tenant}`);
  const digest = hash("sha256", Buffer.concat([name, wrapped_data_key]), "buffer");
  return digest.toString("latin1", 0, FINGERPRINT_BYTES);
}

/** Reads the data keys of at most `limit` tenants, sorted by name, after the tenant `after`. */
export type ReadDataKeys = (after: string | undefined, limit: number) => Promise<readonly WrappedDataKey[]>;

/** SQL condition for rows with a data key. It ignores the tenant's state, which could have been altered. */
const STORED = "octet_length(wrapped_data_key) > 0";

/** Returns a reader of data keys for use in a transaction of the journal. */
export function readInTransaction(client: pg.Client): ReadDataKeys {
  return async (after, limit) => {
    const { rows } = await client.query<WrappedDataKey>(
      `select tenant, kek, wrapped_data_key from tenants where ${STORED} and ($1::text is null or tenant > $1)
       order by tenant limit $2`,
      [after ?? null, limit],
    );
    return rows;
  };
}

/**
 * Returns a reader of data keys for use outside the journal. Rejects with `VaultError unavailable` if the
 * database does not answer.
 */
export function readOutsideJournal(database: Database): ReadDataKeys {
  return (after, limit) =>
    available(() => {
      const query = database<TenantRow>("tenants").whereRaw(STORED).orderBy("tenant").limit(limit);
      if (after !== undefined) query.where("tenant", ">", after);
      return query.select("tenant", "kek", "wrapped_data_key");
    });
}

/** Returns the number of data keys. Rejects with `VaultError unavailable` if the database does not answer. */
export async function countStored(database: Database): Promise<number> {
  const [row] = await available(() =>
    database("tenants").whereRaw(STORED).count<{ count: number }[]>("* as count"),
  );
  return row?.count ?? 0;
}

/** Returns the number of data keys that the database lists under a version. */
export async function countUnder(client: pg.Client, kek: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `select count(*) as count from tenants where ${STORED} and kek = $1`,
    [kek],
  );
  return rows[0]?.count ?? 0;
}
