import { unixSeconds } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { expandScopes } from "../protocol/scopes.ts";

/** A certificate of an agent that may be presented now. */
export type ActiveCertificate = {
  cert_id: string;
  cert_json: string;
  approved_scope: string[];
  ceiling_scope: string[] | null;
};

/** Which certificate to present: the one named, or the newest that grants a scope, or the newest. */
export type CertificateChoice = { certId?: string | undefined; requiredScope?: string | undefined };

/** Certificates of one agent looked through for one that grants a scope. */
const CANDIDATES = 100;

/** The agent's newest active certificate that fits the choice; nothing when there is none. */
export async function findActiveCertificate(
  db: Database,
  agentId: string,
  choice: CertificateChoice,
  now: Date,
): Promise<ActiveCertificate | undefined> {
  return (await findActiveCertificates(db, agentId, choice, now))[0];
}

/**
 * The agent's active certificates that fit the choice, newest first; one, unless a scope is asked for. A certificate is
 * active in the whole of its last second, as the protocol counts time.
 */
export async function findActiveCertificates(
  db: Database,
  agentId: string,
  choice: CertificateChoice,
  now: Date,
): Promise<ActiveCertificate[]> {
  const second = new Date(unixSeconds(now) * 1000);
  const query = db("certificates")
    .select("cert_id", "cert_json", "approved_scope", "ceiling_scope")
    .where({ agent_id: agentId, status: "approved" })
    .andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second))
    .orderBy("issued_at", "desc")
    .orderBy("cert_id", "desc")
    .limit(choice.requiredScope === undefined ? 1 : CANDIDATES);
  if (choice.certId !== undefined) query.andWhere({ cert_id: choice.certId });
  const candidates: ActiveCertificate[] = await query;
  const { requiredScope } = choice;
  if (requiredScope === undefined) return candidates;
  return candidates.filter((candidate) => grants(candidate, requiredScope));
}

/** Whether a certificate grants a scope under its platform's ceiling as it is now. */
function grants({ approved_scope, ceiling_scope }: ActiveCertificate, scope: string): boolean {
  return expandScopes(approved_scope).includes(scope) && (ceiling_scope?.includes(scope) ?? true);
}
