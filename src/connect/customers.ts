import { containsText, type Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { type RetireDeps, type RotatedKey, replaceKey } from "../platforms/api_keys/rotate_key.ts";
import { findPlatform, lockConnection } from "../platforms/platform_record.ts";
import type { AccountCaller } from "../route.ts";
import { useOf } from "./products.ts";

/** A customer of a platform, as its publisher sees it. */
export type CustomerRecord = {
  connection_id: string;
  org_id: string;
  /** The name that the customer chose to show. */
  org_name: string;
  allowed_scopes: string[];
  created_at: Date;
  removed_at: Date | null;
  /** The last call with one of the connection's API keys, at most five minutes before the true time. */
  last_used_at: Date | null;
  agents: number;
  delegations: number;
};

/** Filters of a list of customers. `q`: a part of the name. */
export type CustomerFilter = {
  state: "active" | "ended";
  org_id?: string | undefined;
  q?: string | undefined;
};

/** A customer connection of an account's platform. */
export type CustomerPlace = { accountId: string; platformId: string; connectionId: string };

type Publisher = Pick<AccountCaller, "accountId" | "connectionId">;

/**
 * Throws `not_found` unless the platform is the caller's: a person of its account, or an API key of its own
 * connection. A customer's key never lists other customers.
 */
export async function requirePublisher(
  db: Database,
  { accountId, connectionId }: Publisher,
  platformId: string,
): Promise<void> {
  const { connection_id } = await findPlatform(db, accountId, platformId);
  if (connectionId !== null && connectionId !== connection_id) throw new ApiError("not_found");
}

/** Selects the connections of a platform's customers, also ended ones. */
export function selectCustomers(
  db: Database,
  { accountId, platformId, now }: { accountId: string; platformId: string; now: Date },
) {
  return db("connections as c")
    .where({ "c.account_id": accountId, "c.product_id": platformId })
    .select<CustomerRecord[]>(
      "c.connection_id",
      "c.customer_account_id as org_id",
      "c.customer_name as org_name",
      "c.allowed_scopes",
      "c.created_at",
      "c.removed_at",
      ...useOf(db, now),
    );
}

/** Returns the customers of a platform that match a filter. An `org_id` that is no id matches nobody. */
export function filterCustomers(
  db: Database,
  place: { accountId: string; platformId: string; now: Date },
  { state, org_id, q }: CustomerFilter,
) {
  const found = selectCustomers(db, place);
  if (state === "active") found.whereNull("c.removed_at");
  else found.whereNotNull("c.removed_at");
  if (org_id !== undefined) found.whereRaw("c.customer_account_id::text = ?", [org_id]);
  if (q !== undefined) found.where(containsText(db, "c.customer_name", q));
  return found;
}

/** Returns a customer of a platform. Throws `not_found`. */
export async function findCustomer(
  db: Database,
  { connectionId, ...place }: CustomerPlace & { now: Date },
): Promise<CustomerRecord> {
  if (!isUuid(connectionId) || !isUuid(place.platformId)) throw new ApiError("not_found");
  const [record] = await selectCustomers(db, place).where({ "c.connection_id": connectionId });
  if (record === undefined) throw new ApiError("not_found");
  return record;
}

/**
 * Replaces the API key of a customer connection that {@link findCustomer} found, like `rotateKey` for an own
 * one. Throws `not_found` if the connection has ended.
 */
export async function rotateCustomerKey(
  { db, secretBox, clock, apiKeys }: RetireDeps,
  place: CustomerPlace,
  graceSeconds: number,
): Promise<RotatedKey> {
  const { rotated, retired } = await db.transaction(async (tx) => {
    await lockConnection(tx, place.connectionId);
    const { accountId: account_id, platformId: product_id, connectionId: connection_id } = place;
    const current = await tx("api_keys as k")
      .join("connections as c", "c.connection_id", "k.connection_id")
      .where({ "c.connection_id": connection_id, "c.account_id": account_id, "c.product_id": product_id })
      .where({ "c.removed_at": null, "k.retires_at": null })
      .first("k.key_prefix");
    if (current === undefined) throw new ApiError("not_found");
    const replaced = { account_id, connection_id, external_id: null, api_key_prefix: current.key_prefix };
    return replaceKey(tx, secretBox, replaced, { graceSeconds, now: clock.now() });
  });
  apiKeys.forget(retired);
  return rotated;
}
