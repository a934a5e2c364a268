import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { CertificateRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvent } from "../../events/outbox.ts";
import { isCertificateId } from "../../ids.ts";
import { lockConnection } from "../../platforms/platform_record.ts";
import type { SecretBox } from "../../secret_box.ts";

/**
 * Revokes a certificate. Every decision that starts after this call returns uses the new state. A repeated
 * call changes nothing, not even the reason. Throws `not_found`.
 */
export async function revokeCertificate(
  { db, secretBox, clock }: { db: Database; secretBox: SecretBox; clock: Clock },
  accountId: string,
  certId: string,
  { reason, revokedBy }: { reason: string | null; revokedBy: string | null },
): Promise<void> {
  if (!isCertificateId(certId)) throw new ApiError("not_found");
  const certificate = await db("certificates").where({ account_id: accountId, cert_id: certId }).first();
  if (certificate === undefined) throw new ApiError("not_found");
  if (certificate.status === "revoked") return;
  await db.transaction(async (tx) => {
    await lockConnection(tx, certificate.connection_id);
    await revokeOnce(tx, secretBox, certificate, { reason, revokedBy, now: clock.now() });
  });
}

/** Does nothing if the certificate is already revoked. The transaction must hold the connection's lock. */
async function revokeOnce(
  tx: Transaction,
  secretBox: SecretBox,
  { account_id, cert_id, connection_id, agent_id }: CertificateRow,
  { reason, revokedBy, now }: { reason: string | null; revokedBy: string | null; now: Date },
): Promise<void> {
  const revoked = await tx("certificates")
    .where({ account_id, cert_id, status: "approved" })
    .update({ status: "revoked", revoked_at: now, revoke_reason: reason, revoked_by: revokedBy });
  if (revoked === 0) return;
  const fields = { cert_id, agent_id, connection_id, org_id: account_id, reason };
  await appendEvent(tx, secretBox, { type: "delegation.revoked", connectionId: connection_id, fields }, now);
}
