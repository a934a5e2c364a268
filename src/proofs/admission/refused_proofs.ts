import { LRUCache } from "lru-cache";
import type { Clock } from "../../clock.ts";
import { createKeyCounts, type KeyCounts } from "../../concurrency/key_counts.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import { ACCOUNT_SHARE, createPace, type Pace } from "../../rates/pace.ts";
import type { ApiKeyCaller } from "../../route.ts";

/**
 * An agent that a connection allowed before has its own rate limit: the connection's limit divided by this
 * number.
 */
const KNOWN_SHARE = 10;
/**
 * The limit of forged signatures is the limit of refused proofs times this number, because checking one
 * signature is cheaper than refusing a whole proof.
 */
const CHECK_SHARE = 4;
const KNOWN_AGENTS = 50_000;
/** Maximum number of proofs that wait under one rate limit. */
const MOST_WAITING = 1_000;

type Caller = Pick<ApiKeyCaller, "accountId" | "connectionId">;

/** A proof to verify. `isSigned` checks whether the proof's agent signed it, and is cheaper than `work`. */
export type GuardedProof<T> = {
  agentId: string;
  isSigned(): Promise<boolean>;
  work(): Promise<{ result: T; allowed: boolean }>;
};

/** Bounds the work for refused proofs, which are not charged. */
export type Refusals = {
  /**
   * Runs the work for a proof, and counts the proof if it is refused. Throws `rate_limited` before any work
   * if too many proofs were refused in a minute. Proofs that are not refused never count. At most as many
   * proofs run at a time as may still be refused, so concurrent proofs cannot exceed the limit. Further
   * proofs wait.
   *
   * An attacker who sends forged proofs to an application must not lock out the application's agents. Agents
   * that this connection allowed before are known. Refused proofs of unknown agents do not affect known
   * agents. Once too many refused proofs name a known agent, the guard checks whether that agent signed them.
   * Proofs that the agent really signed then have their own rate limit.
   */
  guard<T>(caller: Caller, proof: GuardedProof<T>): Promise<T>;
};

/** Allows at most `perMinute` refused proofs for a connection, in this process. */
export function createRefusals({ perMinute, clock }: { perMinute: number; clock: Clock }): Refusals {
  const bound = (count: number): Bound => ({
    pace: createPace({ perMinute: count, clock }),
    running: createKeyCounts({ mostWaiting: MOST_WAITING }),
  });
  /** Creates rate limits for a connection and for its whole account. */
  const bounds = (count: number) => {
    const [byConnection, byAccount] = [bound(count), bound(ACCOUNT_SHARE * count)];
    return ({ accountId, connectionId }: Caller): Rate[] => [
      { ...byConnection, key: connectionId },
      { ...byAccount, key: accountId },
    ];
  };
  /** Creates rate limits for each agent and for all agents together. */
  const agentBounds = () => {
    const [byAgent, together] = [bound(Math.ceil(perMinute / KNOWN_SHARE)), bounds(perMinute)];
    return (caller: Caller, agent: string): Rate[] => [{ ...byAgent, key: agent }, ...together(caller)];
  };
  const strangers = bounds(perMinute);
  const unchecked = agentBounds();
  const checks = bounds(CHECK_SHARE * perMinute);
  const signed = agentBounds();
  const known = new LRUCache<string, true>({ max: KNOWN_AGENTS });

  /**
   * Registers the call as running under the rate limits that would count its refusal. Returns these rate
   * limits.
   */
  async function enter(caller: Caller, agent: string, isSigned: () => Promise<boolean>): Promise<Rate[]> {
    if (!known.has(agent)) return enterAll(strangers(caller));
    return enterAll(unchecked(caller, agent)).catch(async (refusal: unknown) => {
      if (!(await passes(caller, isSigned))) throw refusal;
      return enterAll(signed(caller, agent));
    });
  }

  /**
   * Checks whether the agent signed the proof, and counts a forged proof. Throws `rate_limited` if too many
   * proofs were forged.
   */
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

/**
 * Waits until no rate limit is full, then registers the call under all of them. Throws `rate_limited` if no
 * further proof may be refused.
 */
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

/**
 * Checks whether the number of running proofs has reached the number that may still be refused. Throws
 * `rate_limited` if no further proof may be refused.
 */
function isFull({ pace, running, key }: Rate): boolean {
  const { admitted, remaining, waitMs } = pace.look(key);
  if (!admitted) throw tooMany(waitMs);
  return running.count(key) >= remaining;
}

/** Checks whether an error is a refusal that is not charged and not caused by an outage. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.code !== "rate_limited";
}

function tooMany(waitMs: number): ApiError {
  return rateLimited("Too many proofs of this connection or account were refused", waitMs);
}
