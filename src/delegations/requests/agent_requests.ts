import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow, DelegationRequestRow, Refusal } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { expandScopes, intersectScopes } from "../../protocol/documents/scopes.ts";
import { createStoredRate, takeRate } from "../../rates/stored_rate.ts";

/**
 * The most pending requests that were made with API keys for one agent, for the agents of one connection, and
 * for those of one account.
 */
export const MAX_ASKED = { agent: 5, connection: 20, account: 200 } as const;
/** Seconds after a denial in which an API key cannot ask again for the denied scopes of the agent. */
export const DENIED_SECONDS = 3_600;

/** New requests in a day. Asking again for a pending request does not count. */
const PER_DAY = { agent: 20, connection: 100 } as const;
const DAY_SECONDS = 86_400;

/**
 * The subject of a request that was made with an API key. An agent asks about a refusal. `action` is the hash
 * of the refused action with its verifier. An application asks without a refusal, which is then null.
 */
export type AskedByKey = { refusal: Refusal | null; action: Buffer | null };

/**
 * Files a request that is made with an API key. Throws `rate_limited` if the agent or its connection has made
 * too many in a day. A request that fails does not count.
 */
export type WithinAskingRates = <T>(
  of: { agentId: string; connectionId: string },
  file: () => Promise<T>,
) => Promise<T>;

/** Creates the limits of requests with API keys, for all replicas. */
export function createAskingRates(db: Database): WithinAskingRates {
  const rateOf = (of: keyof typeof PER_DAY) =>
    createStoredRate(db, { keyPrefix: `asks_day_${of}`, points: PER_DAY[of], seconds: DAY_SECONDS });
  const perAgent = rateOf("agent");
  const perConnection = rateOf("connection");
  return async ({ agentId, connectionId }, file) => {
    await takeRate(perAgent, agentId, "The agent asked too often in a day");
    await takeRate(perConnection, connectionId, "The connection's agents asked too often in a day");
    try {
      return await file();
    } catch (error) {
      await Promise.allSettled([perAgent.giveBack(agentId), perConnection.giveBack(connectionId)]);
      throw error;
    }
  };
}

/**
 * Throws `four_eyes_required` if the account of an own connection requires two people, because nobody could
 * approve a request whose requester is no person. At a customer connection, the member who connected counts
 * as the requester.
 */
export async function refuseFourEyes(db: Database, connectionId: string): Promise<void> {
  const found = await db("connections as c")
    .join("accounts as a", "a.account_id", db.raw("coalesce(c.customer_account_id, c.account_id)"))
    .where({ "c.connection_id": connectionId, "a.four_eyes": true })
    .whereRaw("(c.customer_account_id is null or c.connected_by is null)")
    .first("c.connection_id");
  if (found === undefined) return;
  throw new ApiError(
    "four_eyes_required",
    "The organization requires two people, so a person must request the delegation",
  );
}

/** Returns the address of the page on which the account's people decide about a request. */
export function decisionPage(
  root: string,
  { account_id, request_id }: Pick<DelegationRequestRow, "account_id" | "request_id">,
): string {
  return `${root}/console/for/${account_id}/requests/${request_id}`;
}

/** The agent that asks. */
type Asking = Pick<AgentRow, "account_id" | "connection_id" | "agent_id">;

/**
 * Returns whether a person can approve only the refused action. The service must know it, and its application
 * must be of this service. An action that a limit refused must have a payload, because the hash of an action
 * does not cover the values that the application sends beside it.
 */
export function allowsOnce(
  request: Pick<DelegationRequestRow, "refusal" | "refused_action">,
  custody: AgentRow["custody_mode"],
): boolean {
  const { refusal, refused_action: action } = request;
  const isKnown = action !== null && refusal !== null && refusal.verifier !== null;
  if (!isKnown || custody !== "custodial") return false;
  return refusal.reason !== "constraint_denied" || refusal.operation?.with_payload === true;
}

/** The content of a request with an API key. `byAgent`: the agent asks, about a refusal. */
type Sought = {
  agentId: string;
  scopes: readonly string[];
  constraints: readonly unknown[];
  action: Buffer | null;
  byAgent: boolean;
};

/**
 * Returns a pending request that was made with an API key for exactly these scopes, constraints and action,
 * if there is one.
 */
export async function findSameRequest(
  db: Database | Transaction,
  { agentId, scopes, constraints, action, byAgent }: Sought,
  now: Date,
): Promise<DelegationRequestRow | undefined> {
  const asked = expandScopes(scopes).join(" ");
  const pending = await db("delegation_requests")
    .where({ agent_id: agentId, status: "pending", refused_action: action })
    .where({ requested_by: null, external_id: null })
    .whereRaw("(refusal is not null) = ? and constraints::jsonb = ?::jsonb", [
      byAgent,
      JSON.stringify(constraints),
    ])
    .andWhere("expires_at", ">", now)
    .orderBy("created_at");
  return pending.find(({ requested_scope }) => expandScopes(requested_scope).join(" ") === asked);
}

/**
 * Checks a request that is made with an API key. Throws `denied_recently` if a person denied the agent one of
 * these scopes within the last hour, and `request_limit` if agents have too many pending requests. So one
 * agent cannot use up the requests of the others, and agents cannot use up those of people and objects. The
 * limit of the account is that of its own connections, so products cannot use it up. The caller must hold the
 * connection's lock.
 */
export async function checkAsking(
  tx: Transaction,
  { account_id, connection_id, agent_id }: Asking,
  scopes: readonly string[],
  now: Date,
): Promise<void> {
  const denied = await tx("delegation_requests")
    .where({ agent_id, status: "denied" })
    .andWhere("decided_at", ">", addSeconds(now, -DENIED_SECONDS))
    .orderBy("decided_at", "desc")
    .select("requested_scope", "decided_at");
  const same = denied.find(({ requested_scope }) => intersectScopes(requested_scope, [...scopes]).length > 0);
  if (same !== undefined) {
    const end = addSeconds(same.decided_at ?? now, DENIED_SECONDS);
    const seconds = Math.max(1, Math.ceil((end.getTime() - now.getTime()) / 1000));
    throw new ApiError("denied_recently", undefined, { "retry-after": String(seconds) });
  }
  const { rows } = await tx.raw<{ rows: [Record<keyof typeof MAX_ASKED, number>] }>(
    `select count(*) filter (where agent_id = :agent_id)::int as agent,
            count(*) filter (where r.connection_id = :connection_id)::int as connection,
            count(*) filter (where c.platform_id is not null and own.platform_id is not null)::int as account
     from delegation_requests r join connections c on c.connection_id = r.connection_id
     join connections own on own.connection_id = :connection_id
     where r.account_id = :account_id and r.status = 'pending' and r.expires_at > :now
       and r.requested_by is null and r.external_id is null`,
    { account_id, connection_id, agent_id, now },
  );
  const [counts] = rows;
  for (const [of, most] of Object.entries(MAX_ASKED) as [keyof typeof MAX_ASKED, number][]) {
    if (counts[of] >= most) {
      const whose = of === "agent" ? "The agent has" : `The agents of the ${of} have`;
      throw new ApiError("request_limit", `${whose} ${most} pending requests of their own`);
    }
  }
}
