import { LRUCache } from "lru-cache";
import type { Clock } from "../../clock.ts";
import { createKeyCounts, type KeyCounts } from "../../concurrency/key_counts.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import { ACCOUNT_SHARE, createPace, type Pace } from "../../rates/pace.ts";
import type { ApiKeyCaller } from "../../route.ts";

/** An agent that was allowed here before has this part of a connection's rate, for itself. */
const KNOWN_SHARE = 10;
/**
 * Signatures that turn out forged may be so many times what may be refused: each costs a part of a refused
 * proof.
 */
const CHECK_SHARE = 4;
const KNOWN_AGENTS = 50_000;
/** Proofs that may wait for others under one rate. */
const MOST_WAITING = 1_000;

type Caller = Pick<ApiKeyCaller, "accountId" | "connectionId">;

/** A proof to be worked on. `isSigned` says, for less work, whether its agent signed it. */
export type GuardedProof<T> = {
  agentId: string;
  isSigned(): Promise<boolean>;
  work(): Promise<{ result: T; allowed: boolean }>;
};

/** Bounds the work that refused proofs cost, since nobody is charged for it. */
export type Refusals = {
  /**
   * Works on a proof, and counts it when it is refused. Throws `rate_limited` before any work once too many
   * were refused in a minute. What is not refused is never counted. No more proofs are worked on at a time
   * than may still be refused, so that concurrent proofs do not outrun the count: the others wait.
   *
   * Who sends an application forged proofs must not keep its agents out. An agent that was allowed at this
   * connection before is known, and not touched by what strangers' proofs were refused for. Once too many
   * were refused that name a known agent, those that it signed are distinguished from forged ones, and have a
   * rate of their own.
   */
  guard<T>(caller: Caller, proof: GuardedProof<T>): Promise<T>;
};

/** At most `perMinute` refused proofs for a connection, in this process. */
export function createRefusals({ perMinute, clock }: { perMinute: number; clock: Clock }): Refusals {
  const bound = (count: number): Bound => ({
    pace: createPace({ perMinute: count, clock }),
    running: createKeyCounts({ mostWaiting: MOST_WAITING }),
  });
  /** For a connection, and for all of its account. */
  const bounds = (count: number) => {
    const [byConnection, byAccount] = [bound(count), bound(ACCOUNT_SHARE * count)];
    return ({ accountId, connectionId }: Caller): Rate[] => [
      { ...byConnection, key: connectionId },
      { ...byAccount, key: accountId },
    ];
  };
  /** For each agent, and for all together. */
  const agentBounds = () => {
    const [byAgent, together] = [bound(Math.ceil(perMinute / KNOWN_SHARE)), bounds(perMinute)];
    return (caller: Caller, agent: string): Rate[] => [{ ...byAgent, key: agent }, ...together(caller)];
  };
  const strangers = bounds(perMinute);
  const unchecked = agentBounds();
  const checks = bounds(CHECK_SHARE * perMinute);
  const signed = agentBounds();
  const known = new LRUCache<string, true>({ max: KNOWN_AGENTS });

  /** The rates that a refusal of this proof counts for, entered. */
  async function enter(caller: Caller, agent: string, isSigned: () => Promise<boolean>): Promise<Rate[]> {
    if (!known.has(agent)) return enterAll(strangers(caller));
    return enterAll(unchecked(caller, agent)).catch(async (refusal: unknown) => {
      if (!(await passes(caller, isSigned))) throw refusal;
      return enterAll(signed(caller, agent));
    });
  }

  /** Whether the agent signed the proof; what is forged counts. Throws when too many were. */
  async function passes(caller: Caller, isSigned: () => Promise<boolean>): Promise<boolean> {
    const rates = await enterAll(checks(caller));
    try {
      const isGood = await isSigned();
      if (!isGood) countAll(rates);
      return isGood;
    } finally {
      leaveAll(rates);
    }
  }

  return {
    async guard(caller, { agentId, isSigned, work }) {
      const agent = `${caller.connectionId} ${agentId}`;
      const rates = await enter(caller, agent, isSigned);
      try {
        const { result, allowed } = await work();
        if (allowed) known.set(agent, true);
        return result;
      } catch (error) {
        if (isRefusal(error)) countAll(rates);
        throw error;
      } finally {
        leaveAll(rates);
      }
    },
  };
}

type Bound = { pace: Pace; running: KeyCounts };
type Rate = Bound & { key: string };

/** Enters all rates once none of them is full. Throws when nothing may be refused any more. */
async function enterAll(rates: Rate[]): Promise<Rate[]> {
  for (;;) {
    const full = rates.find(isFull);
    if (full === undefined) {
      for (const { running, key } of rates) running.enter(key);
      return rates;
    }
    await (full.running.nextEnd(full.key) ?? Promise.reject(tooMany(0)));
  }
}

function leaveAll(rates: readonly Rate[]): void {
  for (const { running, key } of rates) running.leave(key);
}

function countAll(rates: readonly Rate[]): void {
  for (const { pace, key } of rates) pace.take(key);
}

/** Whether all that may still be refused is being worked on. Throws when nothing may be refused any more. */
function isFull({ pace, running, key }: Rate): boolean {
  const { admitted, remaining, waitMs } = pace.look(key);
  if (!admitted) throw tooMany(waitMs);
  return running.count(key) >= remaining;
}

/** Answers that are not charged and not due to a part that is away. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.code !== "rate_limited";
}

function tooMany(waitMs: number): ApiError {
  return rateLimited("Too many proofs were refused here", waitMs);
}
