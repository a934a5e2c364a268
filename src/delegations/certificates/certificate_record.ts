import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow, CertificateRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isCertificateId } from "../../ids.ts";
import type { AccountCaller } from "../../route.ts";
import { callerRows } from "../caller_rows.ts";

/**
 * A certificate with who approved and who revoked it, by e-mail, whom it is about, and the object that
 * declares it.
 */
export type CertificateRecord = Omit<CertificateRow, "approved_by" | "revoked_by"> & {
  approved_by: string;
  revoked_by: string | null;
  agent_name: string;
  agent_key: AgentRow["public_key"];
  custody_mode: AgentRow["custody_mode"];
  platform_id: string;
  platform_name: string;
  external_id: string | null;
  object_namespace: string | null;
  object_name: string | null;
  requested_user: string | null;
};

/**
 * All certificates; narrow it by `t.` (certificates), `g.` (agents), `p.` (platforms). An object that
 * declares a delegation lies in the namespace of its platform's.
 */
export function selectCertificates(db: Database | Transaction) {
  return db("certificates as t")
    .join("accounts as a", "a.account_id", "t.approved_by")
    .leftJoin("accounts as b", "b.account_id", "t.revoked_by")
    .join("agents as g", "g.agent_id", "t.agent_id")
    .join("connections as n", "n.connection_id", "t.connection_id")
    .join("platforms as p", "p.platform_id", "n.platform_id")
    .join("delegation_requests as r", "r.request_id", "t.request_id")
    .select<CertificateRecord[]>(
      "t.*",
      "a.email as approved_by",
      "b.email as revoked_by",
      "g.name as agent_name",
      "g.public_key as agent_key",
      "g.custody_mode",
      "p.platform_id",
      "p.name as platform_name",
      "r.external_id",
      "p.object_namespace",
      "r.object_name",
      "r.requested_user",
    );
}

/** The caller's certificate with this id. Throws `not_found`. */
export async function findCertificate(
  db: Database | Transaction,
  caller: AccountCaller,
  certId: string,
): Promise<CertificateRecord> {
  if (!isCertificateId(certId)) throw new ApiError("not_found");
  const [record] = await selectCertificates(db)
    .where({ "t.cert_id": certId, ...callerRows(caller, "t") })
    .limit(1);
  if (record === undefined) throw new ApiError("not_found");
  return record;
}
