import { notExpired, type Transaction } from "../db/database.ts";
import type { CertificateRow } from "../db/tables.ts";
import type { LifecycleEvent } from "../events/outbox.ts";

/** Selects the authority of a whole connection, or of one of its agents. */
export type AuthorityOf = { connection_id: string; agent_id?: string };

/** Withdraws the pending requests of a connection or an agent. The caller must hold the connection's lock. */
export async function withdrawRequests(
  tx: Transaction,
  of: AuthorityOf,
  reason: string,
  now: Date,
): Promise<void> {
  await tx("delegation_requests")
    .where({ ...of, status: "pending" })
    .update({ status: "withdrawn", reason, decided_at: now });
}

/**
 * Returns one `delegation.revoked` event for each active, unexpired certificate, ordered by certificate id.
 * Reads the rows without locking them, so decisions continue. While the caller holds the connection's lock,
 * the rows cannot change before its transaction revokes them.
 */
export async function revocationEvents(
  tx: Transaction,
  of: AuthorityOf,
  reason: string,
  now: Date,
): Promise<LifecycleEvent[]> {
  const active = await notExpired(tx("certificates"), now)
    .where({ ...of, status: "approved" })
    .orderBy("cert_id")
    .select("cert_id", "agent_id", "connection_id", "account_id");
  return active.map(({ account_id, ...certificate }) => ({
    type: "delegation.revoked",
    connectionId: of.connection_id,
    fields: { ...certificate, org_id: account_id, reason },
  }));
}

/**
 * Revokes the active certificates of an agent, or of connections. The caller must hold the connections'
 * locks. See {@link changeCertificates}.
 */
export async function revokeCertificates(
  tx: Transaction,
  of: AuthorityOf | readonly string[],
  reason: string,
  now: Date,
): Promise<void> {
  await changeCertificates(tx, of, { status: "revoked", revoked_at: now, revoke_reason: reason });
}

/**
 * Changes the active certificates of an agent, or of connections by their ids. Call it last in a transaction.
 * Until the commit, every decision on these certificates waits, together with the other decisions of its
 * batch. Locks the rows in the same order as a batch of decisions does. Any other order could deadlock with a
 * batch.
 */
export async function changeCertificates(
  tx: Transaction,
  of: AuthorityOf | readonly string[],
  change: Partial<CertificateRow>,
): Promise<void> {
  const active = () => {
    const approved = tx("certificates").where({ status: "approved" });
    return isList(of)
      ? approved.whereRaw("connection_id = any (?::uuid[])", [[...of]])
      : approved.where({ ...of });
  };
  const pinned = active().select("cert_id").orderBy(["account_id", "cert_id"]).forNoKeyUpdate();
  await tx.count().from(pinned.as("pinned"));
  await active().update(change);
}

/**
 * Narrows the active certificates of connections to a ceiling, as {@link changeCertificates} changes them. A
 * certificate never gets a scope back that an earlier ceiling took.
 */
export async function narrowCertificates(
  tx: Transaction,
  connectionIds: readonly string[],
  ceiling: readonly string[],
): Promise<void> {
  const left = (column: string, condition = "") =>
    tx.raw(
      `case when ${column} is not null then
         array(select kept from unnest(${column}) as kept where kept = any (:ceiling::text[]))
       ${condition} else :ceiling::text[] end`,
      { ceiling: [...ceiling] },
    ) as never;
  await changeCertificates(tx, connectionIds, {
    ceiling_scope: left("ceiling_scope"),
    restricted_ceiling: left("restricted_ceiling", "when num_nonnulls(only_at, only_action) = 0 then null"),
  });
}

function isList(of: AuthorityOf | readonly string[]): of is readonly string[] {
  return Array.isArray(of);
}
