import type { Pool, PoolClient } from "pg";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { createPerKeyQueue } from "../../concurrency/per_key_queue.ts";
import type { Database } from "../../db/database.ts";
import { type ApiError, rateLimited } from "../../errors.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import { type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { BatchPlace, Decide } from "./batch.ts";
import type { StepAside } from "./fair_queue.ts";
import { decideOne } from "./held_credit.ts";

/** Counts the `allow` decisions with a certificate in the last `windowSeconds`. */
type CountAllows = (certId: string, windowSeconds: number) => Promise<number>;

/** Certificates whose earlier `allow` decisions are counted. `byOwner`: the caller's principal owns them. */
type Counting = { certificates: { accountId: string; certId: string }[]; byOwner: boolean; now: Date };

/** A lock of rate-limited certificates. Until the lock ends, no other call decides with them. */
export type CertificateLock = {
  countAllows: CountAllows;
  /** Decides an item in the transaction that counted, so the counts are still correct when it commits. */
  decide: Decide;
  /** Ends the lock and rolls back anything that was not committed. Never rejects. */
  end(): Promise<void>;
};

/** Waits for the lock. Throws `rate_limited` if too many calls already wait for these certificates. */
export type LockCertificates = (counting: Counting) => Promise<CertificateLock>;

/** Maximum number of calls that wait for one certificate, including the call that is being decided. */
const MOST_CALLS = 64;
/** Maximum number of waiting calls from accounts other than the owner's. Such calls may be free. */
const MOST_OF_OTHERS = 32;
const RETRY_MS = 1_000;

/** Checks whether a certificate limits how often it may be used (wire format §7, `max_rate`). */
function isRated(certificate: DelegationCert): boolean {
  return certificate.constraints.some((constraint) => constraint.type === "max_rate");
}

/**
 * Creates the function that locks certificates. It locks their rows before it counts, so the counts include
 * everything that the previous lock recorded. Calls for the same certificates queue in memory, so they use
 * only one connection of `pool`. `pool` must serve nothing else. Calls from other accounts never fill the
 * queue. `credit` finds out what an account pays from.
 */
export function createCertificateLocks(pool: Pool, credit: BatchPlace): LockCertificates {
  const calls = createKeyCounts();
  const callsOfOthers = createKeyCounts();
  const oneAtATime = createPerKeyQueue();

  /** Waits for earlier calls that use these certificates. Returns the function that starts the next call. */
  async function queueUp({ certificates, byOwner }: Counting): Promise<() => void> {
    const key = certificates.map(({ certId }) => certId).join(" ");
    if (!byOwner && !callsOfOthers.enter(key, MOST_OF_OTHERS)) throw tooManyCalls();
    if (!calls.enter(key, MOST_CALLS)) {
      if (!byOwner) callsOfOthers.leave(key);
      throw tooManyCalls();
    }
    const { promise: isOver, resolve: letNextIn } = Promise.withResolvers<void>();
    await new Promise<void>((begin) => {
      void oneAtATime(key, () => {
        begin();
        return isOver;
      });
    });
    return () => {
      calls.leave(key);
      if (!byOwner) callsOfOthers.leave(key);
      letNextIn();
    };
  }

  return async (counting) => {
    const leave = await queueUp(counting);
    try {
      return await lockRows(await pool.connect(), counting, { credit, leave });
    } catch (error) {
      leave();
      throw error;
    }
  };
}

async function lockRows(
  client: PoolClient,
  { certificates, now }: Counting,
  { credit, leave }: { credit: BatchPlace; leave: () => void },
): Promise<CertificateLock> {
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
      const outcome = await decideOne(client, item, credit);
      await client.query("commit");
      isCommitted = true;
      return outcome;
    },
    async end() {
      await release();
      leave();
    },
  };
}

function tooManyCalls(): ApiError {
  return rateLimited("Too many concurrent calls for this certificate", RETRY_MS);
}

/** Returns a function that counts `allow` decisions, visible to `database`, in windows that end at `now`. */
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

/** Returns the start time of a window, but never a time before 1970. */
function windowStart(now: Date, windowSeconds: number): Date {
  return new Date(Math.max(0, now.getTime() - windowSeconds * 1000));
}

/** Checks whether a connection's platform accepts another account's root for a scope at a given time. */
export type IsAccepted = (asked: {
  connectionId: string;
  humanId: string;
  scope: string;
  at: Date;
}) => Promise<boolean>;

/**
 * Creates the check that runs before a call waits for a different account's certificate. The check's result
 * is not final: the deciding statement reads the acceptance again.
 */
export function createAcceptanceFinder(db: Database): IsAccepted {
  return async ({ connectionId, humanId, scope, at }) => {
    const row = await db("accepted_principals")
      .where({ connection_id: connectionId, human_id: humanId })
      .whereRaw("? = any (granted_scope)", [scope])
      .andWhere((end) => end.whereNull("accepted_until").orWhere("accepted_until", ">", at))
      .first("human_id");
    return row !== undefined;
  };
}

/** Dependencies of counting uses and of deciding. */
export type CountingDeps = {
  decide: Decide;
  lockCertificates: LockCertificates;
  isAccepted: IsAccepted;
};

/** A lock that begins when a rule first asks for a count. The proof is then decided under the lock. */
type RateLock = CertificateLock & {
  /**
   * Looks up whether a different account's root is accepted. True without a look-up if nothing is rated. At a
   * customer connection, only the customer's root is accepted.
   */
  isAccepted(): Promise<boolean>;
};

type Proof = {
  call: {
    caller: Pick<ApiKeyCaller, "principalAccountId" | "isCustomer" | "connectionId">;
    options: { required_scope: string };
    stepAside?: StepAside;
  };
  bundle: ProofBundle;
  root: { accountId: string } | undefined;
  now: Date;
};

/**
 * Creates a lock that begins when a rule first asks how often a proof's certificates were used. So only
 * genuine proofs wait, and only if the caller's principal owns the root or the root is accepted.
 */
export function createRateLock(deps: CountingDeps, { call, bundle, root, now }: Proof): RateLock {
  const { caller, options } = call;
  const rated = bundle.delegations.filter(isRated);
  const byOwner = root?.accountId === caller.principalAccountId;
  let accepted: Promise<boolean> | undefined;
  let lock: CertificateLock | undefined;

  async function isAccepted(): Promise<boolean> {
    if (root === undefined || byOwner) return true;
    if (caller.isCustomer) return false;
    if (rated.length === 0) return true;
    accepted ??= deps.isAccepted({
      connectionId: caller.connectionId,
      humanId: rootCertificate(bundle).issuer_id,
      scope: options.required_scope,
      at: now,
    });
    return accepted;
  }

  return {
    isAccepted,
    async countAllows(certId, windowSeconds) {
      if (root === undefined || !(await isAccepted())) return 0;
      const certificates = rated.map(({ cert_id }) => ({ accountId: root.accountId, certId: cert_id }));
      if (lock === undefined) call.stepAside?.();
      lock ??= await deps.lockCertificates({ certificates, byOwner, now });
      return lock.countAllows(certId, windowSeconds);
    },
    decide: (item) => (lock === undefined ? deps.decide(item, call.stepAside) : lock.decide(item)),
    async end() {
      await lock?.end();
    },
  };
}
