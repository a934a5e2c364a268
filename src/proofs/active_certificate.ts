import { ceilingOf, type Database, notExpired } from "../db/database.ts";
import { scopesGranting } from "../protocol/documents/scopes.ts";

/** An agent's certificate that may currently be presented. */
export type ActiveCertificate = {
  cert_id: string;
  approved_scope: string[];
  ceiling_scope: string[] | null;
  expires_at: Date | null;
};

/** Selects the certificate to present: by id, or the newest that grants a scope, or the newest of all. */
export type CertificateChoice = {
  certId?: string | undefined;
  requiredScope?: string | undefined;
  /** The hash of the action with its verifier. Certificates for one time match only their own action. */
  action?: Buffer | undefined;
  /** Selects only certificates for one time. */
  isForOneTime?: boolean;
};

const MOST = 100;
const CEILING = ceilingOf("certificates");

/**
 * Returns the agent's active certificates that match the choice, newest first, at most 100. A certificate
 * grants a scope only if its own scopes and its platform's current ceiling both contain that scope. A
 * certificate for one time is active until its action was allowed.
 */
export async function findActiveCertificates(
  db: Database,
  agentId: string,
  choice: CertificateChoice,
  now: Date,
): Promise<ActiveCertificate[]> {
  const query = notExpired(db("certificates"), now)
    .select<ActiveCertificate[]>(
      "cert_id",
      "approved_scope",
      db.raw(`${CEILING} as ceiling_scope`),
      "expires_at",
    )
    .where({ agent_id: agentId, status: "approved" })
    .orderBy("issued_at", "desc")
    .orderBy("cert_id", "desc")
    .limit(MOST);
  const { certId, requiredScope, action, isForOneTime = false } = choice;
  if (isForOneTime) query.whereNotNull("only_action");
  if (action === undefined) query.whereNull("only_action");
  else {
    query.whereRaw(
      `(only_action is null or only_action = ? and not exists (
         select from audit_events e where e.cert_id = certificates.cert_id and e.decision = 'allow'
           and e.verifier_account_id is null))`,
      [action],
    );
  }
  if (certId !== undefined) query.andWhere({ cert_id: certId });
  if (requiredScope !== undefined) {
    query.whereRaw("approved_scope && ?", [scopesGranting(requiredScope)]);
    query.whereRaw(`coalesce(? = any (${CEILING}), true)`, [requiredScope]);
  }
  return query;
}

/** Returns a certificate's JSON exactly as issued and signed. Throws if the certificate no longer exists. */
export async function readCertificate(db: Database, { cert_id }: ActiveCertificate): Promise<string> {
  const row = await db("certificates").where({ cert_id }).first("cert_json");
  if (row === undefined) throw new Error(`The certificate ${cert_id} no longer exists`);
  return row.cert_json;
}
