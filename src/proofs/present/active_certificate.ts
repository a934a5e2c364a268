import { type Database, notExpired } from "../../db/database.ts";
import { scopesGranting } from "../../protocol/documents/scopes.ts";

/** A certificate of an agent that may be presented now. */
export type ActiveCertificate = {
  cert_id: string;
  approved_scope: string[];
  ceiling_scope: string[] | null;
  expires_at: Date | null;
};

/** Which certificate to present: the one named, or the newest that grants a scope, or the newest. */
export type CertificateChoice = { certId?: string | undefined; requiredScope?: string | undefined };

/** Certificates of one agent that are given at most. */
const MOST = 100;

/**
 * The agent's active certificates that fit the choice, the newest 100, newest first. A certificate grants
 * what its scopes and its platform's ceiling, as it is now, both do.
 */
export async function findActiveCertificates(
  db: Database,
  agentId: string,
  choice: CertificateChoice,
  now: Date,
): Promise<ActiveCertificate[]> {
  const query = notExpired(db("certificates"), now)
    .select("cert_id", "approved_scope", "ceiling_scope", "expires_at")
    .where({ agent_id: agentId, status: "approved" })
    .orderBy("issued_at", "desc")
    .orderBy("cert_id", "desc")
    .limit(MOST);
  const { certId, requiredScope } = choice;
  if (certId !== undefined) query.andWhere({ cert_id: certId });
  if (requiredScope !== undefined) {
    query.whereRaw("approved_scope && ?", [scopesGranting(requiredScope)]);
    query.whereRaw("(ceiling_scope is null or ? = any (ceiling_scope))", [requiredScope]);
  }
  return query;
}

/** A certificate as its issuer's key signed it. */
export async function readCertificate(db: Database, { cert_id }: ActiveCertificate): Promise<string> {
  const row = await db("certificates").where({ cert_id }).first("cert_json");
  if (row === undefined) throw new Error(`${cert_id} is gone`);
  return row.cert_json;
}
