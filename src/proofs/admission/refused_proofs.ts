import { LRUCache } from "lru-cache";
import type { Clock } from "../../clock.ts";
import { atMost } from "../../concurrency/at_most.ts";
import { createKeyCounts, type KeyCounts } from "../../concurrency/key_counts.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import { ACCOUNT_SHARE, createPace, type Pace } from "../../rates/pace.ts";
import type { ApiKeyCaller } from "../../route.ts";

/** An agent that the connection allowed before has the connection's limit divided by this number. */
const KNOWN_SHARE = 10;
/** Limit of forged signatures, as a multiple of the limit of refused proofs. A signature check is cheap. */
const CHECK_SHARE = 4;
const KNOWN_AGENTS = 50_000;
/** Maximum number of proofs that wait under one rate limit. */
const MOST_WAITING = 1_000;

type Caller = Pick<ApiKeyCaller, "accountId" | "connectionId" | "isCustomer">;

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
   * if too many proofs were refused in a minute. At most as many proofs run at a time as may still be
   * refused, and further proofs wait.
   *
   * An attacker who sends forged proofs must not lock out the application's agents. So refused proofs of
   * unknown agents do not affect agents that this connection allowed before. Once too many refused proofs
   * name such a known agent, the guard checks whether the agent signed them. Proofs that the agent signed
   * then have their own rate limit.
   */
  guard<T>(caller: Caller, proof: GuardedProof<T>): Promise<T>;
};

/**
 * Creates the guard for this process. Each connection has separate limits: `perMinute` for unknown agents,
 * `perMinute` for known agents, `perMinute` again for known agents whose signature was good, and four times
 * that for forged signatures. The own connections of an account have four times each limit together.
 * `docs/api.md` has the table of these
 * limits, under "Forged proofs".
 */
export function createRefusals({ perMinute, clock }: { perMinute: number; clock: Clock }): Refusals {
  const bound = (count: number): Bound => ({
    pace: createPace({ perMinute: count, clock }),
    running: createKeyCounts({ mostWaiting: MOST_WAITING }),
  });
  const bounds = (count: number) => {
    const [byConnection, byAccount] = [bound(count), bound(ACCOUNT_SHARE * count)];
    return ({ accountId, connectionId, isCustomer }: Caller): Rate[] => [
      { ...byConnection, key: connectionId },
      ...(isCustomer ? [] : [{ ...byAccount, key: accountId }]),
    ];
  };
  const agentBounds = () => {
    const [byAgent, together] = [bound(Math.ceil(perMinute / KNOWN_SHARE)), bounds(perMinute)];
    return (caller: Caller, agent: string): Rate[] => [{ ...byAgent, key: agent }, ...together(caller)];
  };
  const strangers = bounds(perMinute);
  const unchecked = agentBounds();
  const checks = bounds(CHECK_SHARE * perMinute);
  const signed = agentBounds();
  const known = new LRUCache<string, true>(atMost(KNOWN_AGENTS));

  /** Registers the call under the rate limits that would count its refusal, and returns these limits. */
  async function enter(caller: Caller, agent: string, isSigned: () => Promise<boolean>): Promise<Rate[]> {
    if (!known.has(agent)) return enterAll(strangers(caller));
    return enterAll(unchecked(caller, agent)).catch(async (refusal: unknown) => {
      if (!(await passes(caller, isSigned))) throw refusal;
      return enterAll(signed(caller, agent));
    });
  }

  /** Checks whether the agent signed the proof. Throws `rate_limited` if too many proofs were forged. */
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

/** Waits until no rate limit is full. Throws `rate_limited` if no further proof may be refused. */
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

/** Throws `rate_limited` if no further proof may be refused. */
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
