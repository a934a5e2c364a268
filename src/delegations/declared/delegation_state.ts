import type { Database } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import type { DelegationState } from "../../operator_calls.ts";
import { showTime } from "../answers.ts";
import { isPending } from "../requests/request_record.ts";

/** A declared delegation's request, by its object's id, with what is known of its certificate. */
export type DeclaredDelegation = DelegationRequestRow & {
  external_id: string;
  decider: string | null;
  cert_id: string | null;
  approved_scope: string[] | null;
  cert_status: "approved" | "revoked" | null;
  issued_at: Date | null;
  cert_expires_at: Date | null;
  revoke_reason: string | null;
};

/** The delegations that objects declare; objects without one are left out. */
export async function findDeclaredDelegations(
  db: Database,
  externalIds: readonly string[],
): Promise<DeclaredDelegation[]> {
  return db("delegation_requests as r")
    .leftJoin("certificates as t", "t.request_id", "r.request_id")
    .leftJoin("accounts as d", "d.account_id", "r.decided_by")
    .whereIn("r.external_id", externalIds)
    .select<DeclaredDelegation[]>(
      "r.*",
      db.raw("coalesce(d.email, r.decided_user) as decider"),
      "t.cert_id",
      "t.approved_scope",
      "t.status as cert_status",
      "t.issued_at",
      "t.expires_at as cert_expires_at",
      "t.revoke_reason",
    );
}

/** A delegation's state at `now`. */
export function showState(declared: DeclaredDelegation, now: Date): DelegationState {
  const status = statusOf(declared, now);
  return {
    request_id: declared.request_id,
    status,
    reason: status === "revoked" ? declared.revoke_reason : declared.reason,
    requested_scope: declared.requested_scope,
    approved_scope: declared.approved_scope,
    cert_id: declared.cert_id,
    issued_at: showTime(declared.issued_at),
    expires_at: showTime(declared.cert_expires_at),
    decided_by: declared.decider,
  };
}

function statusOf(declared: DeclaredDelegation, now: Date): DelegationState["status"] {
  if (declared.cert_status === "revoked") return "revoked";
  if (declared.status === "pending" && !isPending(declared, now)) return "expired";
  return declared.status;
}
