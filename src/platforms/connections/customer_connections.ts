import { isDeepStrictEqual } from "node:util";
import { hasMembers } from "../../accounts/member_role.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { ConnectionRow, OwnConnectionRow } from "../../db/key_tables.ts";
import type { PlatformRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvent } from "../../events/outbox.ts";
import { webhookSecretContext } from "../../events/secrets.ts";
import { isUuid, newId } from "../../ids.ts";
import { checkCeiling, checkScopes } from "../../input/ceiling.ts";
import { expandScopes } from "../../protocol/documents/scopes.ts";
import type { SecretBox } from "../../secret_box.ts";
import { type NewApiKey, newApiKey } from "../api_keys/api_key.ts";
import { replaceKey } from "../api_keys/rotate_key.ts";
import { narrowCertificates } from "../end_authority.ts";
import { lockConnection, allowedScopes as withinCeiling } from "../platform_record.ts";
import { insertConnection } from "./insert_connection.ts";

/** How long the former API key of a customer connection remains valid after the customer connects again. */
const GRACE_SECONDS = 24 * 3_600;

/**
 * A customer who connects to a platform. `customerName` is the name that the publisher sees, and
 * `connectedBy` the customer's member who connected.
 */
export type NewCustomerConnection = {
  platformId: string;
  customerAccountId: string;
  customerName: string;
  allowedScopes: readonly string[];
  connectedBy: string;
  now: Date;
};

/**
 * A customer connection with its new API key, which is shown once. After the commit, the caller passes
 * `retired` to the finder of API keys: the prefixes of former keys whose end changed.
 */
export type CustomerConnection = {
  connectionId: string;
  /** Whether the customer had no live connection with the platform. */
  isNew: boolean;
  apiKey: string;
  apiKeyPrefix: string;
  /** The name that the publisher sees. */
  customerName: string;
  /** The chosen scopes, expanded. */
  allowedScopes: string[];
  /** Whether the platform's agents could be lent scopes before that are not among them. */
  isNarrower: boolean;
  retired: string[];
};

/**
 * Connects a customer to a platform, in the caller's transaction: creates the connection with its API key,
 * and emits `connection.created` with the name of the customer. A customer has one live connection with a
 * platform. To connect again keeps its id, its name and its agents, replaces the chosen scopes and the API
 * key, and emits `connection.key_rotated`, and `connection.changed` if the scopes differ. The former key
 * remains valid for 24 hours. Narrower scopes narrow the certificates. Wider scopes do not revive what ended
 * before.
 *
 * Takes the locks of the platform's own connection, of the customer's connection and of the customer's
 * account, in this order. The caller must hold no lock of a connection or an account. Whether the customer
 * may connect, and whether the platform is published, is the caller's check.
 *
 * Throws `not_found` if the platform or the customer's account has ended, `invalid_scopes` if no scope is
 * chosen or if a chosen one is not a scope, and `ceiling_exceeded`.
 */
export async function createCustomerConnection(
  tx: Transaction,
  secretBox: SecretBox,
  customer: NewCustomerConnection,
): Promise<CustomerConnection> {
  const { platformId, customerAccountId, now } = customer;
  const { own, platform } = await lockPlatform(tx, platformId);
  const existing = await tx("connections")
    .where({ product_id: platformId, customer_account_id: customerAccountId })
    .whereNull("removed_at")
    .forNoKeyUpdate()
    .first("connection_id", "customer_name", "allowed_scopes");
  // A person may delete the account at this moment.
  await tx("accounts").where({ account_id: customerAccountId }).forNoKeyUpdate().select("account_id");
  if (!(await hasMembers(tx, customerAccountId))) throw new ApiError("not_found");
  const chosen = checkScopes(customer.allowedScopes);
  if (chosen.length === 0) throw new ApiError("invalid_scopes", "Choose at least one scope");
  checkCeiling(platform.default_allowed_scopes, chosen);
  const allowedScopes = expandScopes(chosen);
  const { customerName } = customer;
  if (existing === undefined) {
    const connectionId = newId();
    const key = newApiKey();
    await insertCustomer(tx, secretBox, { ...customer, allowedScopes }, { own, connectionId, key });
    const { apiKey, prefix: apiKeyPrefix } = key;
    const made = { connectionId, apiKey, apiKeyPrefix, customerName, allowedScopes };
    return { ...made, isNew: true, isNarrower: false, retired: [] };
  }
  const { connection_id: connectionId } = existing;
  const current = await tx("api_keys").where({ connection_id: connectionId, retires_at: null }).first();
  if (current === undefined) throw new ApiError("not_found");
  const record = {
    account_id: own.account_id,
    connection_id: connectionId,
    external_id: null,
    api_key_prefix: current.key_prefix,
  };
  const { rotated, retired } = await replaceKey(tx, secretBox, record, { graceSeconds: GRACE_SECONDS, now });
  await tx("connections").where({ connection_id: connectionId }).update({
    allowed_scopes: allowedScopes,
    connected_by: customer.connectedBy,
  });
  await emitChanged(tx, secretBox, { ...existing, customerAccountId, allowedScopes, now });
  const held = withinCeiling(existing.allowed_scopes, platform.default_allowed_scopes);
  const isNarrower = held.some((scope) => !allowedScopes.includes(scope));
  if (isNarrower) await narrowCertificates(tx, [connectionId], allowedScopes);
  const { api_key: apiKey, api_key_prefix: apiKeyPrefix } = rotated;
  const again = { connectionId, apiKey, apiKeyPrefix, customerName: existing.customer_name ?? customerName };
  return { ...again, allowedScopes, isNew: false, isNarrower, retired };
}

/**
 * Returns how many customers are connected to each of these platforms, tests of a draft included, as the list
 * of active customers has them. Omits platforms without customers.
 */
export async function countCustomers(
  db: Database,
  platformIds: readonly string[],
): Promise<Map<string, number>> {
  const rows = await db("connections")
    .whereIn("product_id", platformIds)
    .whereNull("removed_at")
    .groupBy("product_id")
    .select<{ product_id: string; customers: number }[]>("product_id", db.raw("count(*)::int as customers"));
  return new Map(rows.map(({ product_id, customers }) => [product_id, customers]));
}

type Place = { own: OwnConnectionRow; connectionId: string; key: NewApiKey };
type Platform = Pick<PlatformRow, "default_allowed_scopes">;

/** Locks the platform's own connection, so that its ceiling does not change. Throws `not_found`. */
async function lockPlatform(
  tx: Transaction,
  platformId: string,
): Promise<{ own: OwnConnectionRow; platform: Platform }> {
  if (!isUuid(platformId)) throw new ApiError("not_found");
  const found = await tx("connections").where({ platform_id: platformId }).first("connection_id");
  if (found === undefined) throw new ApiError("not_found");
  await lockConnection(tx, found.connection_id);
  const own = await tx<OwnConnectionRow>("connections")
    .where({ connection_id: found.connection_id, removed_at: null })
    .first();
  const platform = await tx("platforms")
    .where({ platform_id: platformId, removed_at: null })
    .first("default_allowed_scopes");
  if (own === undefined || platform === undefined) throw new ApiError("not_found");
  return { own: own as OwnConnectionRow, platform };
}

/** The callback and its secret are those of the platform. */
async function insertCustomer(
  tx: Transaction,
  secretBox: SecretBox,
  { platformId, customerAccountId, customerName, allowedScopes, connectedBy, now }: NewCustomerConnection,
  { own, connectionId, key }: Place,
): Promise<void> {
  await insertConnection(
    tx,
    secretBox,
    {
      connection_id: connectionId,
      account_id: own.account_id,
      product_id: platformId,
      customer_account_id: customerAccountId,
      customer_name: customerName,
      allowed_scopes: [...allowedScopes],
      connected_by: connectedBy,
      explanation_values: own.explanation_values,
      created_at: now,
    },
    {
      ...{ platformId, allowedScopes, key, orgId: customerAccountId, orgName: customerName },
      callbackUrl: own.callback_url,
      webhookSecret: secretBox.unbox(own.webhook_secret_sealed, webhookSecretContext(own.connection_id)),
    },
  );
}

/** The scopes of a customer connection before a change, with its id, and afterwards. */
type ChangedScopes = Pick<NewCustomerConnection, "customerAccountId" | "allowedScopes" | "now"> &
  Pick<ConnectionRow, "connection_id" | "allowed_scopes">;

/**
 * Emits `connection.changed` if the scopes differ now, and returns whether they do. The caller must hold the
 * connection's lock.
 */
export async function emitChanged(
  tx: Transaction,
  secretBox: SecretBox,
  { connection_id, allowed_scopes: former, customerAccountId, allowedScopes, now }: ChangedScopes,
): Promise<boolean> {
  if (isDeepStrictEqual(former, allowedScopes)) return false;
  const fields = { connection_id, org_id: customerAccountId, allowed_scopes: [...allowedScopes] };
  await appendEvent(tx, secretBox, { type: "connection.changed", connectionId: connection_id, fields }, now);
  return true;
}

/**
 * Ends the approvals with which developers of a customer could connect products again, or that of one
 * product. The customer does this with each connection that it narrows or ends, so that no developer undoes
 * it alone.
 */
export async function endApprovals(
  tx: Transaction,
  { accountId, platformId }: { accountId: string; platformId?: string | null },
): Promise<void> {
  await tx("connect_proposals")
    .where({ account_id: accountId, ...(platformId != null && { platform_id: platformId }) })
    .whereNotNull("approved_at")
    .delete();
}

/** Erases the names under which publishers know accounts, and the labels that publishers gave to them. */
export async function forgetCustomers(tx: Transaction, accountIds: readonly string[]): Promise<void> {
  const theirs = () => tx("connections").whereIn("customer_account_id", [...accountIds]);
  await tx("connect_consents")
    .whereIn("connection_id", theirs().select("connection_id"))
    .update({
      consent: tx.raw(`consent || '{"account_label": null}'`) as never,
      approved_consent: tx.raw(`approved_consent || '{"account_label": null}'`) as never,
    });
  await theirs().update({ customer_name: "Deleted account" });
}
