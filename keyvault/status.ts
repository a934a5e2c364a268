import type { Journal } from "./audit/journal.ts";
import type { Database } from "./db/connection.ts";
import type { RewrapProgress, Rewrapping } from "./kek/rewrap.ts";
import { available } from "./keys/store.ts";
import type { Token } from "./token/client.ts";

/** What the vault is and has, without a secret in it. */
export type Status = {
  token: { manufacturer: string; model: string; serial: string; keks: string[]; answers: boolean };
  kek: RewrapProgress;
  keys: { tenants: number; active: number; disabled: number; destroying: number; destroyed: number };
  audit: { records: number; head: string };
};

/** Reads the status. Rejects with `VaultError unavailable` when the database does not answer. */
export type ReadStatus = () => Promise<Status>;

/** The status of these parts. `head` is the last record's code in hexadecimal, to be noted elsewhere. */
export function createStatusReading(parts: {
  database: Database;
  token: Token;
  journal: Journal;
  rewrapping: Pick<Rewrapping, "progress">;
}): ReadStatus {
  const { database, token, journal, rewrapping } = parts;
  return async () => {
    const [counts, kek, answers] = await Promise.all([
      available(() => count(database)),
      rewrapping.progress(),
      token.health().then(yes, no),
    ]);
    const head = journal.head();
    return {
      token: { ...token.info(), answers },
      kek,
      keys: counts,
      audit: { records: head.seq, head: head.mac.toString("hex") },
    };
  };
}

async function count(database: Database): Promise<Status["keys"]> {
  const { rows } = await database.raw(`
    SELECT (SELECT count(*) FROM tenants) AS tenants,
           count(*) FILTER (WHERE state = 'active') AS active,
           count(*) FILTER (WHERE state = 'disabled') AS disabled,
           count(*) FILTER (WHERE state = 'destroying') AS destroying,
           count(*) FILTER (WHERE state = 'destroyed') AS destroyed
    FROM keys`);
  return rows[0];
}

const yes = (): boolean => true;
const no = (): boolean => false;
