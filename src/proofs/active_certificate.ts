import { unixSeconds } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { expandScopes } from "../protocol/scopes.ts";

/** A certificate of an agent that may be presented now. */
export type ActiveCertificate = {
  cert_id: string;
  approved_scope: string[];
  ceiling_scope: string[] | null;
  expires_at: Date | null;
};

/** Which certificate to present: the one named, or the newest that grants a scope, or the newest. */
export type CertificateChoice = { certId?: string | undefined; requiredScope?: string | undefined };

/** Certificates of one agent that are looked through. */
const CANDIDATES = 100;

/**
 * The agent's active certificates that fit the choice, newest first, of its newest 100. A certificate is active in the
 * whole of its last second, as the protocol counts time.
 */
export async function findActiveCertificates(
  db: Database,
  agentId: string,
  choice: CertificateChoice,
  now: Date,
): Promise<ActiveCertificate[]> {
  const second = new Date(unixSeconds(now) * 1000);
  const query = db("certificates")
    .select("cert_id", "approved_scope", "ceiling_scope", "expires_at")
    .where({ agent_id: agentId, status: "approved" })
    .andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second))
    .orderBy("issued_at", "desc")
    .orderBy("cert_id", "desc")
    .limit(CANDIDATES);
  if (choice.certId !== undefined) query.andWhere({ cert_id: choice.certId });
  const candidates: ActiveCertificate[] = await query;
  const { requiredScope } = choice;
  if (requiredScope === undefined) return candidates;
  return candidates.filter((candidate) => grants(candidate, requiredScope));
}

/** A certificate as its issuer's key signed it. */
export async function readCertificate(db: Database, { cert_id }: ActiveCertificate): Promise<string> {
  const row = await db("certificates").where({ cert_id }).first("cert_json");
  if (row === undefined) throw new Error(`${cert_id} is gone`);
  return row.cert_json;
}

/** Whether a certificate grants a scope under its platform's ceiling as it is now. */
function grants({ approved_scope, ceiling_scope }: ActiveCertificate, scope: string): boolean {
  return expandScopes(approved_scope).includes(scope) && (ceiling_scope?.includes(scope) ?? true);
}
