import { platformOf, type Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";

/** The most pending requests of one connection. One namespace of a cluster can have as many in an account. */
export const MAX_PENDING = 50;

/** The most pending requests of one account. */
export const MAX_ACCOUNT_PENDING = 1_000;

/** The part of each limit that one requester can use, if others may file requests too. */
const REQUESTER_SHARE = 0.8;

/**
 * The requester: a person, or `null` for the objects of all clusters. `clusterId` is the cluster of the
 * object, whose namespace is that of its platform.
 */
export type Requester = {
  accountId: string;
  connectionId: string;
  requestedBy: string | null;
  clusterId: string | null;
  /** Whether nobody else can file requests with a session, because the account is a personal one. */
  isAlone: boolean;
  /** Whether an API key asks. API keys and objects, behind which no person is known, have separate shares. */
  byKey: boolean;
  /** Whether the connection is a customer's, at which only API keys ask. */
  isCustomer: boolean;
};

type Counts = {
  connection: number;
  own: number;
  account: number;
  own_account: number;
  namespace: number;
};

/**
 * Throws `request_limit` if the connection or the account has too many pending requests, or too many of this
 * requester. So neither one member of an organization nor the clusters can block everybody else, and no
 * namespace can block all other namespaces.
 *
 * Requests at customer connections count only toward the limit of their connection.
 *
 * The caller must hold the connection's lock, which makes the connection's limit exact. Calls for other
 * connections at the same time can exceed the account's limit, each by one request.
 */
export async function checkPending(
  tx: Transaction,
  { accountId, connectionId, requestedBy, clusterId, isAlone, byKey, isCustomer }: Requester,
  now: Date,
): Promise<void> {
  const { rows } = await tx.raw<{ rows: [Counts] }>(
    `select count(*) filter (where of_connection)::int as connection,
            count(*) filter (where of_connection and is_own)::int as own,
            count(*)::int as account, count(*) filter (where is_own)::int as own_account,
            count(*) filter (where of_namespace)::int as namespace
     from (select r.connection_id = :connectionId as of_connection,
                  r.requested_by is not distinct from :requestedBy
                    and (r.requested_by is null and r.external_id is null) = :byKey as is_own,
                  r.requested_by is null and split_part(r.external_id, '.', 1) = :clusterId
                    and p.object_namespace = asking.object_namespace as of_namespace
           from delegation_requests r
           join connections c on c.connection_id = r.connection_id
           join platforms p on p.platform_id = ${platformOf("c")}
           join connections own on own.connection_id = :connectionId
           join platforms asking on asking.platform_id = ${platformOf("own")}
           where r.account_id = :accountId and r.status = 'pending' and r.expires_at > :now
             and (c.platform_id is not null or c.connection_id = :connectionId)) as pending`,
    { accountId, connectionId, requestedBy, clusterId, byKey, now },
  );
  const [pending] = rows;
  const share = isAlone ? 1 : REQUESTER_SHARE;
  if (pending.connection >= MAX_PENDING) throw reached(`The connection has ${MAX_PENDING} pending requests`);
  // Products cannot use up the customer's own limits, nor those of other products.
  if (isCustomer) return;
  if (pending.own >= MAX_PENDING * share) {
    throw reached(`The connection has ${MAX_PENDING * share} pending requests of this requester`);
  }
  if (pending.account >= MAX_ACCOUNT_PENDING) {
    throw reached(`The account has ${MAX_ACCOUNT_PENDING} pending requests`);
  }
  if (pending.own_account >= MAX_ACCOUNT_PENDING * share) {
    throw reached(`The account has ${MAX_ACCOUNT_PENDING * share} pending requests of this requester`);
  }
  if (pending.namespace >= MAX_PENDING) {
    throw reached(`The account has ${MAX_PENDING} pending requests of this namespace`);
  }
}

function reached(what: string): ApiError {
  return new ApiError("request_limit", `${what}. Approve or deny some, or wait until they expire`);
}
