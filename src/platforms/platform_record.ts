import { type Database, platformOf, type Transaction } from "../db/database.ts";
import type { PlatformRow, WebhookEndpointRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import type { ExplanationValues, ScopeDescriptions } from "../input/platform_fields.ts";
import { intersectScopes } from "../protocol/documents/scopes.ts";
import type { AccountCaller } from "../route.ts";
import { AWAITS_URL } from "../webhooks/endpoint.ts";

/** A platform with its connection and the prefix of its current API key, without secrets. */
export type PlatformRecord = Omit<
  PlatformRow,
  "signing_secret_sealed" | "signing_former_sealed" | "signing_former_until"
> & {
  connection_id: string;
  callback_url: string | null;
  callback_state: WebhookEndpointRow["state"];
  verifier_id: string;
  registry_answers: boolean;
  explanation_values: ExplanationValues;
  outside_verifiers: string[];
  /** `null` once the connection is removed. */
  api_key_prefix: string | null;
  api_key_created_at: Date | null;
  rotation_request: string | null;
  end_due_at: Date | null;
};

/** A platform that is not removed and has a current API key. */
export type LivePlatform = PlatformRecord & { api_key_prefix: string; api_key_created_at: Date };

/** Throws if a caller may no longer make a change. A change calls it while it holds the connection's lock. */
export type CheckChange = (tx: Transaction) => Promise<void>;

/** A platform of an account, and the check before its change. */
export type PlatformPlace = { accountId: string; platformId: string; check?: CheckChange };

/** A connection of an account, and the check before its change. */
export type ConnectionPlace = { accountId: string; connectionId: string; check?: CheckChange };

/** Selects all platforms with their own connections, as `p` (platforms) and `c` (connections). */
export function selectPlatforms(db: Database | Transaction) {
  return db("platforms as p")
    .join("connections as c", "c.platform_id", "p.platform_id")
    .leftJoin("api_keys as k", (on) => on.on("k.connection_id", "c.connection_id").onNull("k.retires_at"))
    .leftJoin("webhook_endpoints as e", "e.connection_id", "c.connection_id")
    .select<PlatformRecord[]>(
      "p.platform_id",
      "p.account_id",
      "p.name",
      "p.description",
      "p.surface_type",
      "p.default_allowed_scopes",
      "p.scope_descriptions",
      "p.redirect_uris",
      "p.publish_state",
      "p.published_domain",
      "p.external_id",
      "p.object_namespace",
      "p.object_name",
      "p.created_at",
      "p.expires_at",
      "p.removed_at",
      "c.connection_id",
      "c.callback_url",
      db.raw(`case when e.state is null or ${AWAITS_URL} then 'active' else e.state end as callback_state`),
      "c.verifier_id",
      "c.registry_answers",
      "c.explanation_values",
      "c.outside_verifiers",
      "k.key_prefix as api_key_prefix",
      "k.created_at as api_key_created_at",
      "c.rotation_request",
      "c.end_due_at",
    );
}

/**
 * Returns the account's platform with this id. Throws `not_found` if the account has no such live platform.
 */
export async function findPlatform(
  db: Database | Transaction,
  accountId: string,
  platformId: string,
): Promise<LivePlatform> {
  return liveRecord(db, { "p.platform_id": platformId, "p.account_id": accountId }, platformId);
}

/**
 * Returns the platform of the account's own connection. Throws `not_found` if the account has no such live
 * platform, also for a customer connection.
 */
export async function findConnection(
  db: Database | Transaction,
  accountId: string,
  connectionId: string,
): Promise<LivePlatform> {
  return liveRecord(db, { "c.connection_id": connectionId, "c.account_id": accountId }, connectionId);
}

/**
 * Returns the account's platform with this id, also while connections of its customers end. Throws
 * `not_found`.
 */
export async function findShownPlatform(
  db: Database | Transaction,
  accountId: string,
  platformId: string,
): Promise<PlatformRecord> {
  if (!isUuid(platformId)) throw new ApiError("not_found");
  const [record] = await selectShownPlatforms(db, accountId).where({ "p.platform_id": platformId }).limit(1);
  if (record === undefined) throw new ApiError("not_found");
  return record;
}

/** Selects the account's platforms, also those whose customers' connections still end. */
export function selectShownPlatforms(db: Database | Transaction, accountId: string) {
  return selectPlatforms(db)
    .where({ "p.account_id": accountId })
    .andWhere((is) => is.whereNull("p.removed_at").orWhereNotNull("c.end_due_at"));
}

async function liveRecord(
  db: Database | Transaction,
  where: Record<string, string>,
  id: string,
): Promise<LivePlatform> {
  if (!isUuid(id)) throw new ApiError("not_found");
  const [record] = await selectPlatforms(db).where(where).limit(1);
  if (record === undefined || !isLive(record)) throw new ApiError("not_found");
  return record;
}

/**
 * A live connection, its own platform's or a customer's. `principal_account_id` is the account whose root
 * counts there: the customer, or the platform's account. `allowed_scopes` are the scopes that agents of the
 * connection may be lent now.
 */
export type PrincipalConnection = {
  connection_id: string;
  account_id: string;
  principal_account_id: string;
  is_customer: boolean;
  /** The member of the customer who connected. Null for an own connection. */
  connected_by: string | null;
  ceiling: string[];
  allowed_scopes: string[];
  scope_descriptions: ScopeDescriptions;
};

type PrincipalRow = Omit<PrincipalConnection, "allowed_scopes"> & {
  chosen_scopes: string[] | null;
  publish_state: PlatformRow["publish_state"];
};

/**
 * Returns the connection, of either kind, whose principal is this account, for new agents, keys, requests and
 * certificates. Throws `not_found` if there is no such live connection, and `forbidden` for a customer
 * connection while its platform is suspended, because the platform's domain may belong to somebody else.
 */
export async function findPrincipalConnection(
  db: Database | Transaction,
  principalAccountId: string,
  connectionId: string,
): Promise<PrincipalConnection> {
  if (!isUuid(connectionId)) throw new ApiError("not_found");
  const row: PrincipalRow | undefined = await db("connections as c")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .where({ "c.connection_id": connectionId })
    .whereRaw("coalesce(c.customer_account_id, c.account_id) = ?", [principalAccountId])
    .whereNull("c.removed_at")
    .whereNull("p.removed_at")
    .first(
      "c.connection_id",
      "c.account_id",
      db.raw("coalesce(c.customer_account_id, c.account_id) as principal_account_id"),
      db.raw("c.customer_account_id is not null as is_customer"),
      "c.connected_by",
      "p.default_allowed_scopes as ceiling",
      "c.allowed_scopes as chosen_scopes",
      "p.scope_descriptions",
      "p.publish_state",
    );
  if (row === undefined) throw new ApiError("not_found");
  const { chosen_scopes, publish_state, ...found } = row;
  const { ceiling } = row;
  if (found.is_customer && publish_state === "suspended") {
    throw new ApiError("forbidden", "The platform is suspended until its publisher proves the domain again");
  }
  return {
    ...found,
    allowed_scopes: allowedScopes(chosen_scopes, ceiling),
  };
}

/** Returns what agents may be lent. `chosen`: the customer's choice, or null for an own connection. */
export function allowedScopes(chosen: string[] | null, ceiling: string[]): string[] {
  return chosen === null ? ceiling : intersectScopes(chosen, ceiling);
}

/**
 * An API key may use only its own connection, and a user any live connection of their account. Throws
 * `not_found` for any other connection.
 */
export async function ownConnection(
  db: Database,
  caller: AccountCaller,
  connectionId: string,
): Promise<string> {
  if (caller.connectionId === null) {
    await findConnection(db, caller.accountId, connectionId);
  } else if (connectionId !== caller.connectionId) throw new ApiError("not_found");
  return connectionId;
}

/**
 * Returns the connection whose API keys a caller may see and end: like {@link ownConnection}, and for a user
 * also the live connections of customers with their account's platforms. `product_id` is such a platform.
 * Throws `not_found` for any other connection, also for the customer of the connection.
 */
export async function keyConnection(
  db: Database,
  caller: AccountCaller,
  connectionId: string,
): Promise<{ connection_id: string; product_id: string | null }> {
  const found =
    caller.connectionId === null &&
    isUuid(connectionId) &&
    (await db("connections as c")
      .join("platforms as p", "p.platform_id", "c.product_id")
      .where({ "c.connection_id": connectionId, "c.account_id": caller.accountId })
      .whereNull("c.removed_at")
      .whereNull("p.removed_at")
      .first("c.connection_id", "c.product_id"));
  if (found) return found;
  return { connection_id: await ownConnection(db, caller, connectionId), product_id: null };
}

/** Returns whether a platform has not been removed. */
export function isLive(record: PlatformRecord): record is LivePlatform {
  return record.removed_at === null && record.api_key_prefix !== null;
}

/**
 * Returns whether a platform is removed, but connections of its customers have not ended yet. Nothing is
 * allowed at them anymore.
 */
export function isRemoving({ removed_at, end_due_at }: PlatformRecord): boolean {
  return removed_at !== null && end_due_at !== null;
}

/**
 * Locks a connection with its platform's ceiling, keys, agents, requests and certificates. Every change to
 * them takes this lock first and reads afterwards. So no change relies on rows that another change is about
 * to modify, and two changes cannot deadlock. Rows that only reference the connection can still be inserted.
 */
export async function lockConnection(tx: Transaction, connectionId: string): Promise<void> {
  await tx("connections").select("connection_id").where({ connection_id: connectionId }).forNoKeyUpdate();
}

/** Locks the platform's customer connections, after its own, and returns their ids. */
export async function lockCustomers(tx: Transaction, platformId: string): Promise<string[]> {
  const locked = await tx("connections")
    .where({ product_id: platformId })
    .whereNull("removed_at")
    .orderBy("connection_id")
    .forNoKeyUpdate()
    .select("connection_id");
  return locked.map(({ connection_id }) => connection_id);
}

/** The surface types of platforms. `open`: the managed service is available (specification §1). */
export const surfaceTypes = {
  agentic_api: { title: "Agentic API", open: true },
  conversational_ai: { title: "Conversational AI", open: false },
  meetings: { title: "Meetings", open: false },
  physical_ai: { title: "Physical AI", open: false },
} as const satisfies Record<string, { title: string; open: boolean }>;

/** Throws `surface_not_available` for a surface type that is unknown or not open yet. */
export function checkSurface(surfaceType: string): void {
  const known = Object.entries(surfaceTypes).find(([identifier]) => identifier === surfaceType)?.[1];
  if (known === undefined) throw new ApiError("surface_not_available", "surface_type: must be a known type");
  if (!known.open) throw new ApiError("surface_not_available", `${known.title} is not available yet`);
}
