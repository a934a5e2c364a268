import type { Clock } from "../clock.ts";
import { accountNameOf, type Database, lastSecond, type Transaction } from "../db/database.ts";
import type { Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { checkScopes } from "../input/ceiling.ts";
import type { ScopeDescriptions } from "../input/platform_fields.ts";
import { tellOtherParty } from "../platforms/connections/connection_acts.ts";
import { emitChanged, endApprovals } from "../platforms/connections/customer_connections.ts";
import { narrowCertificates } from "../platforms/end_authority.ts";
import { lockConnection } from "../platforms/platform_record.ts";
import { expandScopes } from "../protocol/documents/scopes.ts";
import type { SecretBox } from "../secret_box.ts";

/** A product to which an account is connected, as the customer sees it. */
export type ProductRecord = {
  connection_id: string;
  platform_id: string;
  platform_name: string;
  scope_descriptions: ScopeDescriptions;
  publisher_name: string;
  /** `null` while the platform is a draft or suspended: the domain may then belong to somebody else. */
  publisher_domain: string | null;
  is_test: boolean;
  customer_name: string;
  allowed_scopes: string[];
  created_at: Date;
  /** The last call with one of the connection's API keys, at most five minutes before the true time. */
  last_used_at: Date | null;
  agents: number;
  delegations: number;
} & (Read | { consented_at: null });

/** The text that a person read when the account was connected last. `consent_by`: their address, if known. */
export type Read = {
  consent: Consent;
  consent_scopes: string[];
  consented_at: Date;
  consent_by: string | null;
  /** The member who had approved the product for somebody without this power, and when. */
  approved_by: string | null;
  approved_at: Date | null;
};

/** Returns whether the service has the text that a person read. */
export function isRead(record: ProductRecord): record is ProductRecord & Read {
  return record.consented_at !== null;
}

/**
 * Returns columns about the connection `c`: the last call with one of its API keys, and the numbers of its
 * live agents and delegations.
 */
export function useOf(db: Database, now: Date) {
  const live = db("certificates as t")
    .whereRaw("t.connection_id = c.connection_id and t.status = 'approved'")
    .whereRaw("(t.expires_at is null or t.expires_at > ?)", [lastSecond(now)])
    .select(db.raw("count(*)::int"));
  const used = db("key_uses as u")
    .whereRaw(
      `u.key_prefix in (select key_prefix from api_keys where connection_id = c.connection_id
        union all select key_prefix from narrow_keys where connection_id = c.connection_id)`,
    )
    .select(db.raw("max(u.used_at)"));
  const agents = db("agents as g")
    .whereRaw("g.connection_id = c.connection_id and g.disabled_at is null")
    .select(db.raw("count(*)::int"));
  return [used.as("last_used_at"), agents.as("agents"), live.as("delegations")];
}

/** Selects the live connections of an account with other accounts' platforms. */
export function selectProducts(db: Database, { accountId, now }: { accountId: string; now: Date }) {
  return db("connections as c")
    .join("platforms as p", "p.platform_id", "c.product_id")
    .join("accounts as o", "o.account_id", "p.account_id")
    .joinRaw(
      `left join lateral (
         select n.consent, n.scopes, n.consented_at, n.person_id, n.approved_by, n.approved_at from connect_consents n
         where n.connection_id = c.connection_id order by n.consented_at desc limit 1) as n on true`,
    )
    .leftJoin("accounts as b", "b.account_id", "n.person_id")
    .leftJoin("accounts as v", "v.account_id", "n.approved_by")
    .where({ "c.customer_account_id": accountId, "c.removed_at": null })
    .select<ProductRecord[]>(
      "c.connection_id",
      "p.platform_id",
      "p.name as platform_name",
      "p.scope_descriptions",
      db.raw(`${accountNameOf("o")} as publisher_name`),
      db.raw("case when p.publish_state = 'published' then p.published_domain end as publisher_domain"),
      db.raw("p.publish_state = 'draft' as is_test"),
      "c.customer_name",
      "c.allowed_scopes",
      "c.created_at",
      ...useOf(db, now),
      "n.consent",
      "n.scopes as consent_scopes",
      "n.consented_at",
      "b.email as consent_by",
      "v.email as approved_by",
      "n.approved_at",
    );
}

/** Returns a connected product. Throws `not_found`. */
export async function findConnectedProduct(
  db: Database,
  place: { accountId: string; connectionId: string; now: Date },
): Promise<ProductRecord> {
  if (!isUuid(place.connectionId)) throw new ApiError("not_found");
  const [record] = await selectProducts(db, place).where({ "c.connection_id": place.connectionId });
  if (record === undefined) throw new ApiError("not_found");
  return record;
}

/**
 * Narrows what agents of a connected product may be lent. From the commit on, certificates grant nothing
 * beyond it, and the product gets `connection.changed`. Only connecting again widens it. Throws `not_found`,
 * `invalid_scopes`, `ceiling_widened`.
 */
export async function narrowProduct(
  tx: Transaction,
  { secretBox, clock }: { secretBox: SecretBox; clock: Clock },
  { accountId, connectionId }: { accountId: string; connectionId: string },
  scopes: readonly string[],
): Promise<void> {
  if (!isUuid(connectionId)) throw new ApiError("not_found");
  await lockConnection(tx, connectionId);
  const live = { connection_id: connectionId, customer_account_id: accountId, removed_at: null };
  const known = await tx("connections").where(live).first();
  if (known === undefined) throw new ApiError("not_found");
  const chosen = expandScopes(checkScopes(scopes));
  const wider = chosen.find((scope) => !known.allowed_scopes?.includes(scope));
  if (wider !== undefined) {
    throw new ApiError(
      "ceiling_widened",
      `${wider} is not allowed yet; connect again at the product to allow more`,
    );
  }
  await tx("connections").where(live).update({ allowed_scopes: chosen });
  const now = clock.now();
  const change = { ...known, customerAccountId: accountId, allowedScopes: chosen, now };
  if (await emitChanged(tx, secretBox, change)) {
    await tellOtherParty(tx, known, { by: "customer", operation: "narrow_connected_product", now });
  }
  await endApprovals(tx, { accountId, platformId: known.product_id });
  await narrowCertificates(tx, [connectionId], chosen);
}
