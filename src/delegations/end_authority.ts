import type { Transaction } from "../db/connection.ts";
import type { CertificateRow } from "../db/tables.ts";

/** Whose authority: all of a connection's, or one of its agents'. */
export type AuthorityOf = { connection_id: string; agent_id?: string };

/** A certificate that was revoked just now. */
export type RevokedCertificate = Pick<CertificateRow, "cert_id" | "agent_id">;

/**
 * Withdraws the pending requests and revokes the active certificates of a connection or an agent, for one reason, in the
 * transaction that ends the connection or agent itself and holds the connection's lock. Gives the certificates revoked.
 */
export async function endAuthority(
  tx: Transaction,
  of: AuthorityOf,
  reason: string,
  now: Date,
): Promise<RevokedCertificate[]> {
  await tx("delegation_requests")
    .where({ ...of, status: "pending" })
    .update({ status: "withdrawn", reason, decided_at: now });
  await pinCertificates(tx, of);
  return tx("certificates")
    .where({ ...of, status: "approved" })
    .update({ status: "revoked", revoked_at: now, revoke_reason: reason })
    .returning(["cert_id", "agent_id"]);
}

/**
 * Holds the active certificates of a connection or an agent, in the order in which decisions hold those of a batch: a
 * change of many rows in any other order could deadlock with a batch of decisions.
 */
export async function pinCertificates(tx: Transaction, of: AuthorityOf): Promise<void> {
  const pinned = tx("certificates")
    .select("cert_id")
    .where({ ...of, status: "approved" })
    .orderBy(["account_id", "cert_id"])
    .forNoKeyUpdate();
  await tx.count().from(pinned.as("pinned"));
}
