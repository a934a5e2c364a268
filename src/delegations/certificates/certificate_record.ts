import type { Database, Transaction } from "../../db/database.ts";
import type { CertificateRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isCertificateId } from "../../ids.ts";
import type { AccountCaller } from "../../route.ts";
import { callerRows } from "../caller_rows.ts";

/** A certificate with who approved and who revoked it, by e-mail. */
export type CertificateRecord = Omit<CertificateRow, "approved_by" | "revoked_by"> & {
  approved_by: string;
  revoked_by: string | null;
};

/** All certificates; narrow it by `t.` (certificates). */
export function selectCertificates(db: Database | Transaction) {
  return db("certificates as t")
    .join("accounts as a", "a.account_id", "t.approved_by")
    .leftJoin("accounts as b", "b.account_id", "t.revoked_by")
    .select<CertificateRecord[]>("t.*", "a.email as approved_by", "b.email as revoked_by");
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
