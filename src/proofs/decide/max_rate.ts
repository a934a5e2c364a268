import type { Pool, PoolClient } from "pg";
import { rateLimited } from "../../errors.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import type { Decide } from "./batch.ts";
import { type DecisionOutcome, decideBatch } from "./decision.ts";

/** How often a certificate was allowed in the last `windowSeconds`. */
export type CountAllows = (certId: string, windowSeconds: number) => Promise<number>;

/** Certificates whose allows before `now` are counted; `byOwner`: for a connection of their own account. */
export type Counting = { certificates: { accountId: string; certId: string }[]; byOwner: boolean; now: Date };

/** A turn at certificates with a rate: until it ends, nobody else decides on them. */
export type Turn = {
  countAllows: CountAllows;
  /** Decides on an item, in a commit that what was counted is true in. */
  decide: Decide;
  /** Ends the turn. What was not committed is undone. Never rejects. */
  end(): Promise<void>;
};

/** Waits for a turn. Throws `rate_limited` when too many wait for these certificates. */
export type TakeTurn = (counting: Counting) => Promise<Turn>;

/** Calls that may wait for one certificate; each takes a few milliseconds. */
const MOST_WAITING = 64;
/** Of them those of other accounts' connections, which can ask at nobody's cost when they have no credit. */
const MOST_OF_OTHERS = 32;
const RETRY_MS = 1_000;

/** Whether a certificate limits how often it may be used (wire format §7, `max_rate`). */
export function isRated(certificate: DelegationCert): boolean {
  return certificate.constraints.some((constraint) => constraint.type === "max_rate");
}

/**
 * What is counted in a turn is still true when its decision commits: the certificates' rows are locked first,
 * and only a statement that starts afterwards sees what the one before has recorded.
 *
 * Calls for the same certificates wait for each other in memory, so a busy one holds a single connection of
 * `pool`, which is for this alone, and delays no other. Other accounts' calls never take all the places of
 * the certificate's own account.
 */
export function createTurns(pool: Pool): TakeTurn {
  const queues = new Map<string, { waiting: number; ofOthers: number; last: Promise<void> }>();

  /** Waits for those before it. Gives what lets the next one in. */
  async function queueUp({ certificates, byOwner }: Counting): Promise<() => void> {
    const key = certificates.map(({ certId }) => certId).join(" ");
    const queue = queues.get(key) ?? { waiting: 0, ofOthers: 0, last: Promise.resolve() };
    const ofOthers = byOwner ? 0 : 1;
    if (queue.waiting >= MOST_WAITING || queue.ofOthers + ofOthers > MOST_OF_OTHERS) {
      throw rateLimited("Too many concurrent calls for this certificate", RETRY_MS);
    }
    const before = queue.last;
    const { promise: isOver, resolve: letNextIn } = Promise.withResolvers<void>();
    queue.waiting += 1;
    queue.ofOthers += ofOthers;
    queue.last = isOver;
    queues.set(key, queue);
    await before;
    return () => {
      queue.waiting -= 1;
      queue.ofOthers -= ofOthers;
      if (queue.waiting === 0) queues.delete(key);
      letNextIn();
    };
  }

  return async (counting) => {
    const leave = await queueUp(counting);
    try {
      return await beginTurn(await pool.connect(), counting, leave);
    } catch (error) {
      leave();
      throw error;
    }
  };
}

async function beginTurn(
  client: PoolClient,
  { certificates, now }: Counting,
  leave: () => void,
): Promise<Turn> {
  let isCommitted = false;

  async function release(): Promise<void> {
    const rollback = isCommitted ? Promise.resolve() : client.query("rollback");
    await rollback.then(
      () => client.release(),
      (error: Error) => client.release(error),
    );
  }

  try {
    await client.query("begin");
    await client.query(
      `select from certificates where (account_id, cert_id) in (select * from unnest($1::uuid[], $2::text[]))
       order by account_id, cert_id for update`,
      [certificates.map(({ accountId }) => accountId), certificates.map(({ certId }) => certId)],
    );
  } catch (error) {
    await release();
    throw error;
  }
  return {
    countAllows: countAllowsBefore(client, now),
    async decide(item) {
      const [outcome] = await decideBatch(client, [item]);
      await client.query("commit");
      isCommitted = true;
      return outcome as DecisionOutcome;
    },
    async end() {
      await release();
      leave();
    },
  };
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
