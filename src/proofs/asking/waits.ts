import { setTimeout as sleep } from "node:timers/promises";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import type { Database } from "../../db/database.ts";

const POLL_MS = 500;
/** Waiting calls of one agent, of one account and of this process. A further call is answered immediately. */
const MOST_WAITING = { agent: 2, account: 20, process: 100 } as const;

/** A waiting call: its request, and whose places it uses. */
type Waiter = { requestId: string; agentId: string; accountId: string };

/** Lets calls wait for decisions. */
export type DecisionWaits = {
  /** Resolves when the request is no longer pending, or after `seconds`, or immediately if too many wait. */
  untilDecided(of: Waiter, seconds: number): Promise<void>;
};

/** Waiting calls share one short query, and none of them holds a connection to the database. */
export function createDecisionWaits(db: Database): DecisionWaits {
  const waiting = new Map<() => void, string>();
  const [agents, accounts] = [createKeyCounts(), createKeyCounts()];
  let isPolling = false;

  /** A request that was deleted meanwhile counts as decided. */
  async function findDecided(ids: readonly string[]): Promise<Set<string>> {
    const rows = await db("delegation_requests")
      .whereIn("request_id", ids)
      .andWhere({ status: "pending" })
      .select("request_id");
    const pending = new Set(rows.map(({ request_id }) => request_id));
    return new Set(ids.filter((id) => !pending.has(id)));
  }

  async function poll(): Promise<void> {
    isPolling = true;
    try {
      while (waiting.size > 0) {
        await sleep(POLL_MS, undefined, { ref: false });
        const decided = await findDecided([...new Set(waiting.values())]);
        for (const [wake, id] of waiting) if (decided.has(id)) wake();
      }
    } catch {
      // Each call reads its request again, and reports the fault.
      for (const wake of waiting.keys()) wake();
    } finally {
      isPolling = false;
    }
  }

  return {
    async untilDecided({ requestId, agentId, accountId }, seconds) {
      if (seconds === 0 || waiting.size >= MOST_WAITING.process) return;
      if (accounts.count(accountId) >= MOST_WAITING.account) return;
      if (!agents.enter(agentId, MOST_WAITING.agent)) return;
      accounts.enter(accountId);
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, seconds * 1000);
      waiting.set(resolve, requestId);
      if (!isPolling) void poll();
      try {
        await promise;
      } finally {
        clearTimeout(timer);
        waiting.delete(resolve);
        agents.leave(agentId);
        accounts.leave(accountId);
      }
    },
  };
}
