import type { Pool, PoolClient } from "pg";
import { ApiError } from "../../errors.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";

/** How often a certificate was allowed in the last `windowSeconds`. */
export type CountAllows = (certId: string, windowSeconds: number) => Promise<number>;

/** Certificates whose allows before `now` are counted; `byOwner`: for a connection of their own account. */
export type Counting = { certificates: { accountId: string; certId: string }[]; byOwner: boolean; now: Date };

/** Runs `work` while nobody else can decide on these certificates. */
export type WithCountedAllows = <T>(counting: Counting, work: CountedWork<T>) => Promise<T>;

type CountedWork<T> = (client: PoolClient, countAllows: CountAllows) => Promise<T>;

/** Calls that may wait for one certificate; each takes a few milliseconds. */
const MOST_WAITING = 64;
/** Of them those of other accounts' connections, which can ask at nobody's cost when they have no credit. */
const MOST_OF_OTHERS = 32;

/** Whether a certificate limits how often it may be used (wire format §7, `max_rate`). */
export function isRated(certificate: DelegationCert): boolean {
  return certificate.constraints.some((constraint) => constraint.type === "max_rate");
}

/**
 * What `work` counts is still true when its decision commits: the certificates' rows are locked first, and
 * only a statement that starts afterwards sees what the one before has recorded.
 *
 * Calls for the same certificates wait for each other in memory, so that a busy one holds a single connection
 * of `pool`, which is for this alone, and delays no other. When too many wait: `rate_limited`. Other
 * accounts' calls never take all the places of the certificate's own account.
 */
export function createCountedAllows(pool: Pool): WithCountedAllows {
  const turns = new Map<string, { waiting: number; ofOthers: number; last: Promise<unknown> }>();

  return async (counting, work) => {
    const key = counting.certificates.map(({ certId }) => certId).join(" ");
    const turn = turns.get(key) ?? { waiting: 0, ofOthers: 0, last: Promise.resolve() };
    const ofOthers = counting.byOwner ? 0 : 1;
    if (turn.waiting >= MOST_WAITING || turn.ofOthers + ofOthers > MOST_OF_OTHERS) {
      throw new ApiError("rate_limited", "Too many calls for this certificate at once", {
        "retry-after": "1",
      });
    }
    turn.waiting += 1;
    turn.ofOthers += ofOthers;
    turns.set(key, turn);
    const mine = turn.last.then(() => runLocked(pool, counting, work));
    turn.last = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      turn.waiting -= 1;
      turn.ofOthers -= ofOthers;
      if (turn.waiting === 0) turns.delete(key);
    }
  };
}

async function runLocked<T>(pool: Pool, { certificates, now }: Counting, work: CountedWork<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query("begin");
    await client.query(
      `select from certificates where (account_id, cert_id) in (select * from unnest($1::uuid[], $2::text[]))
       order by account_id, cert_id for update`,
      [certificates.map(({ accountId }) => accountId), certificates.map(({ certId }) => certId)],
    );
    const result = await work(client, countAllowsBefore(client, now));
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch((failure: Error) => {
      broken = failure;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/** Counts the allows of the windows that end at `now`, as far as `database` sees them. */
export function countAllowsBefore(database: Pool | PoolClient, now: Date): CountAllows {
  return async (certId, windowSeconds) => {
    const { rows } = await database.query<{ count: number }>(
      `select count(*) from audit_events
       where cert_id = $1 and decision = 'allow' and verifier_account_id is null and occurred_at > $2`,
      [certId, windowStart(now, windowSeconds)],
    );
    return rows[0]?.count ?? 0;
  };
}

/** When a window began; one that reaches back beyond 1970 began then. */
function windowStart(now: Date, windowSeconds: number): Date {
  return new Date(Math.max(0, now.getTime() - windowSeconds * 1000));
}
