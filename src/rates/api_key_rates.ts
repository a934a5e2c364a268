import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError, rateLimited } from "../errors.ts";
import type { ApiKeyCaller, RatedKind } from "../route.ts";
import { ACCOUNT_SHARE, createPace } from "./pace.ts";
import { consumeRate, createStoredRate, type RateLeft, type StoredRate } from "./stored_rate.ts";

const DAY_SECONDS = 86_400;

/** Rate limits of one connection, from the settings. */
export type ApiKeyLimits = { presentPerMinute: number; agentsPerDay: number };

type Caller = Pick<ApiKeyCaller, "accountId" | "connectionId" | "isCustomer">;

/**
 * Rate limits for calls with an API key, by kind of call. All keys of one connection share one limit, so a
 * key rotation does not reset it.
 */
export type ApiKeyRates = {
  /**
   * Counts a call, and returns headers with the number of remaining calls of the connection. Throws
   * `rate_limited` with `Retry-After` if the connection, or its account's own connections together, reached
   * the limit. A customer connection has only its own limit.
   */
  take(kind: RatedKind, caller: Caller): Promise<Record<string, string>>;
  /**
   * Counts a call as `take` does, and runs it with these headers. A call that fails does not count if the
   * kind counts created objects, unless a limit refused it.
   */
  within<T>(
    kind: RatedKind,
    caller: Caller,
    run: (headers: Record<string, string>) => Promise<T>,
  ): Promise<T>;
};

type Left = { limit: number; seconds: number; remaining: number; resetMs: number };

/**
 * Returns the rate limits. Presented proofs are counted in this process, per minute. Created agents are
 * counted in the database across all replicas, per day. The day starts with the first agent.
 */
export function createApiKeyRates({
  db,
  clock,
  limits: { presentPerMinute, agentsPerDay },
}: {
  db: Database;
  clock: Clock;
  limits: ApiKeyLimits;
}): ApiKeyRates {
  const presents = createPace({ perMinute: presentPerMinute, clock });
  const accountPresents = createPace({ perMinute: ACCOUNT_SHARE * presentPerMinute, clock });
  const daily = (keyPrefix: string, points: number) =>
    createStoredRate(db, { keyPrefix, points, seconds: DAY_SECONDS });
  const agents = daily("agents_connection", agentsPerDay);
  const accountAgents = daily("agents_account", ACCOUNT_SHARE * agentsPerDay);
  async function takeAgents({ accountId, connectionId, isCustomer }: Caller) {
    const headers = await takeAgent(agents, connectionId);
    if (isCustomer) return headers;
    await takeAgent(accountAgents, accountId).catch(async (error: unknown) => {
      await agents.giveBack(connectionId);
      throw error;
    });
    return headers;
  }
  async function take(kind: RatedKind, caller: Caller) {
    if (kind === "agents") return takeAgents(caller);
    const { accountId, connectionId, isCustomer } = caller;
    const account = isCustomer ? undefined : accountPresents.look(accountId);
    const full = account?.admitted === false ? account : undefined;
    const own = full ?? presents.take(connectionId);
    const left = { limit: presentPerMinute, seconds: 60, remaining: own.remaining, resetMs: own.resetMs };
    if (!own.admitted) {
      const none = full === undefined ? left : { ...left, remaining: 0 };
      throw rateLimited(WHAT[kind], own.waitMs, headersOf(kind, none));
    }
    if (!isCustomer) accountPresents.take(accountId);
    return headersOf(kind, left);
  }
  return {
    take,
    async within(kind, caller, run) {
      const headers = await take(kind, caller);
      try {
        return await run(headers);
      } catch (error) {
        // The vault has made the key of an agent for which the connection had no room in the end.
        const isFull = error instanceof ApiError && error.code === "rate_limited";
        if (kind === "agents" && !isFull) {
          await agents.giveBack(caller.connectionId);
          if (!caller.isCustomer) await accountAgents.giveBack(caller.accountId);
        }
        throw error;
      }
    },
  };
}

/** The headers contain the number of agents that may still be created. */
async function takeAgent(rate: StoredRate, key: string): Promise<Record<string, string>> {
  const headers = ({ remaining, resetMs }: RateLeft) =>
    headersOf("agents", { limit: rate.points, seconds: DAY_SECONDS, remaining, resetMs });
  const left = await consumeRate(rate, key, (refused) =>
    rateLimited(WHAT.agents, refused.resetMs, headers(refused)),
  );
  return headers(left);
}

const WHAT: Record<RatedKind, string> = {
  present: "Too many proofs were presented with this key",
  agents: "Too many agents were created for this connection in a day",
};

/** The headers have the form of draft-ietf-httpapi-ratelimit-headers-10. */
function headersOf(kind: RatedKind, { limit, seconds, remaining, resetMs }: Left): Record<string, string> {
  return {
    "ratelimit-policy": `"${kind}";q=${limit};w=${seconds}`,
    ratelimit: `"${kind}";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
  };
}
