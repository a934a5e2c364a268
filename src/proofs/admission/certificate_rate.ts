import type { Pool, PoolClient } from "pg";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { createPerKeyQueue } from "../../concurrency/per_key_queue.ts";
import type { Database } from "../../db/database.ts";
import { type ApiError, rateLimited } from "../../errors.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import { type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import type { ApiKeyCaller } from "../../route.ts";
import { type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import type { Decide } from "./batch.ts";
import type { StepAside } from "./fair_queue.ts";

/** How often a certificate was allowed in the last `windowSeconds`. */
type CountAllows = (certId: string, windowSeconds: number) => Promise<number>;

/** Certificates whose allows before `now` are counted; `byOwner`: for a connection of their own account. */
type Counting = { certificates: { accountId: string; certId: string }[]; byOwner: boolean; now: Date };

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

/** Calls that may be at one certificate at a time, the one that is decided included. */
const MOST_CALLS = 64;
/** How many of these may come from other accounts, whose calls cost nothing when they have no credit. */
const MOST_OF_OTHERS = 32;
const RETRY_MS = 1_000;

/** Whether a certificate limits how often it may be used (wire format §7, `max_rate`). */
function isRated(certificate: DelegationCert): boolean {
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
  const calls = createKeyCounts();
  const callsOfOthers = createKeyCounts();
  const oneAtATime = createPerKeyQueue();

  /** Waits for those before it. Gives what lets the next one in. */
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

function tooManyCalls(): ApiError {
  return rateLimited("Too many concurrent calls for this certificate", RETRY_MS);
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

/** Whether a connection's platform accepts another account's root for a scope, as of a moment. */
export type IsAccepted = (asked: {
  connectionId: string;
  humanId: string;
  scope: string;
  at: Date;
}) => Promise<boolean>;

/**
 * Looks an acceptance up before anything is waited for in the other account's name. It decides nothing: it
 * may be taken back before the deciding statement, which reads it again.
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

/** What counting and deciding need. */
export type CountingDeps = {
  decide: Decide;
  /** For certificates that limit how often they may be used. */
  takeTurn: TakeTurn;
  /** Whether another account's such certificates are to be counted at all. */
  isAccepted: IsAccepted;
};

/** Counts what a proof's certificates allowed before, when a rule asks for it, and decides accordingly. */
type RateTurn = Turn & {
  /**
   * Whether the root's authority may be used here, asked at most once. Where no certificate has a rate, the
   * deciding statement alone asks, and here it counts as accepted.
   */
  isAccepted(): Promise<boolean>;
};

type Proof = {
  call: {
    caller: Pick<ApiKeyCaller, "accountId" | "connectionId">;
    options: { required_scope: string };
    stepAside?: StepAside;
  };
  bundle: ProofBundle;
  root: { accountId: string } | undefined;
  now: Date;
};

/**
 * Takes the turn at a proof's certificates when their rate is first asked for: only a genuine proof of a
 * known root waits for them, and of another account's root only where it is accepted. All other proofs are
 * decided immediately.
 */
export function createRateTurn(deps: CountingDeps, { call, bundle, root, now }: Proof): RateTurn {
  const { caller, options } = call;
  const rated = bundle.delegations.filter(isRated);
  const byOwner = root?.accountId === caller.accountId;
  let accepted: Promise<boolean> | undefined;
  let turn: Turn | undefined;

  async function isAccepted(): Promise<boolean> {
    if (root === undefined || byOwner || rated.length === 0) return true;
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
      if (turn === undefined) call.stepAside?.();
      turn ??= await deps.takeTurn({ certificates, byOwner, now });
      return turn.countAllows(certId, windowSeconds);
    },
    decide: (item) => (turn === undefined ? deps.decide(item, call.stepAside) : turn.decide(item)),
    async end() {
      await turn?.end();
    },
  };
}
