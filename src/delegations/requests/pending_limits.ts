import type { Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";

/** The most pending requests of one connection. */
export const MAX_PENDING = 50;

/** The most pending requests of one account. */
export const MAX_ACCOUNT_PENDING = 1_000;

/** The part of each limit that one requester can use, if others may file requests too. */
const REQUESTER_SHARE = 0.8;

/** The requester: a person, or `null` for the objects of all clusters. */
export type Requester = {
  accountId: string;
  connectionId: string;
  requestedBy: string | null;
  /** Whether nobody else can file requests with a session, because the account is a personal one. */
  isAlone: boolean;
};

type Counts = { connection: number; own: number; account: number; own_account: number };

/**
 * Throws `request_limit` if the connection or the account has too many pending requests, or too many of this
 * requester. So neither one member of an organization nor the clusters can block everybody else.
 *
 * The caller must hold the connection's lock, which makes the connection's limit exact. Calls for other
 * connections at the same time can exceed the account's limit, each by one request.
 */
export async function checkPending(
  tx: Transaction,
  { accountId, connectionId, requestedBy, isAlone }: Requester,
  now: Date,
): Promise<void> {
  const { rows } = await tx.raw<{ rows: [Counts] }>(
    `select count(*) filter (where of_connection)::int as connection,
            count(*) filter (where of_connection and is_own)::int as own,
            count(*)::int as account, count(*) filter (where is_own)::int as own_account
     from (select connection_id = :connectionId as of_connection,
                  requested_by is not distinct from :requestedBy as is_own
           from delegation_requests
           where account_id = :accountId and status = 'pending' and expires_at > :now) as pending`,
    { accountId, connectionId, requestedBy, now },
  );
  const [pending] = rows;
  const share = isAlone ? 1 : REQUESTER_SHARE;
  if (pending.connection >= MAX_PENDING) throw reached(`The connection has ${MAX_PENDING} pending requests`);
  if (pending.own >= MAX_PENDING * share) {
    throw reached(`The connection has ${MAX_PENDING * share} pending requests of this requester`);
  }
  if (pending.account >= MAX_ACCOUNT_PENDING) {
    throw reached(`The account has ${MAX_ACCOUNT_PENDING} pending requests`);
  }
  if (pending.own_account >= MAX_ACCOUNT_PENDING * share) {
    throw reached(`The account has ${MAX_ACCOUNT_PENDING * share} pending requests of this requester`);
  }
}

function reached(what: string): ApiError {
  return new ApiError("request_limit", `${what}. Approve or deny some, or wait until they expire`);
}
