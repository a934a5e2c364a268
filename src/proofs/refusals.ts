import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { ApiError, rateLimited } from "../errors.ts";
import { ACCOUNT_SHARE, createPace, type Pace } from "../pace.ts";
import type { ApiKeyCaller } from "../route.ts";
import { createUnderWay, type UnderWay } from "./under_way.ts";

/** An agent that was allowed here before has this part of a connection's rate, for itself. */
const KNOWN_SHARE = 10;
const KNOWN_AGENTS = 50_000;
/** Proofs that may wait for others under one rate. */
const MOST_WAITING = 1_000;

type Caller = Pick<ApiKeyCaller, "accountId" | "connectionId">;

/** Bounds the work that refused proofs cost, since nobody is charged for it. */
export type Refusals = {
  /**
   * Runs `work` on a proof of `agentId`, and counts it when it is refused. Throws `rate_limited` before any work once
   * too many were refused in a minute. What is not refused is never counted. No more proofs are worked on at a time than may
   * still be refused, so that proofs that come at once do not outrun the count: the others wait.
   *
   * Who sends an application forged proofs must not keep its agents out: an agent that was allowed at this connection before
   * is not touched by what others' proofs were refused for.
   */
  guard<T>(caller: Caller, agentId: string, work: () => Promise<{ result: T; allowed: boolean }>): Promise<T>;
};

/** At most `perMinute` refused proofs for a connection, in this process. */
export function createRefusals({ perMinute, clock }: { perMinute: number; clock: Clock }): Refusals {
  const bound = (count: number): Bound => ({
    pace: createPace({ perMinute: count, clock }),
    underWay: createUnderWay({ mostWaiting: MOST_WAITING }),
  });
  const byConnection = bound(perMinute);
  const byAccount = bound(ACCOUNT_SHARE * perMinute);
  const byAgent = bound(Math.ceil(perMinute / KNOWN_SHARE));
  const known = new LRUCache<string, true>({ max: KNOWN_AGENTS });

  /** The rates that a refusal of this agent's proof counts for. */
  function ratesOf({ accountId, connectionId }: Caller, agent: string): Rate[] {
    if (known.has(agent)) return [{ ...byAgent, key: agent }];
    return [
      { ...byConnection, key: connectionId },
      { ...byAccount, key: accountId },
    ];
  }

  async function enter(caller: Caller, agent: string): Promise<Rate[]> {
    for (;;) {
      const rates = ratesOf(caller, agent);
      const full = rates.find(isFull);
      if (full === undefined) {
        for (const { underWay, key } of rates) underWay.enter(key);
        return rates;
      }
      await (full.underWay.nextEnd(full.key) ?? Promise.reject(tooMany(0)));
    }
  }

  return {
    async guard(caller, agentId, work) {
      const agent = `${caller.connectionId} ${agentId}`;
      const rates = await enter(caller, agent);
      try {
        const { result, allowed } = await work();
        if (allowed) known.set(agent, true);
        return result;
      } catch (error) {
        if (isRefusal(error)) for (const { pace, key } of rates) pace.take(key);
        throw error;
      } finally {
        for (const { underWay, key } of rates) underWay.leave(key);
      }
    },
  };
}

type Bound = { pace: Pace; underWay: UnderWay };
type Rate = Bound & { key: string };

/** Whether all that may still be refused is being worked on. Throws when nothing may be refused any more. */
function isFull({ pace, underWay, key }: Rate): boolean {
  const { admitted, remaining, waitMs } = pace.look(key);
  if (!admitted) throw tooMany(waitMs);
  return underWay.count(key) >= remaining;
}

/** Answers that are not charged and not due to a part that is away. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.code !== "rate_limited";
}

function tooMany(waitMs: number): ApiError {
  return rateLimited("Too many proofs were refused here", waitMs);
}
