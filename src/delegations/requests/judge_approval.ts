import { isDeepStrictEqual } from "node:util";
import { type Clock, unixSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { newCertificateId } from "../../ids.ts";
import { checkAccountCeiling, checkCeiling, named } from "../../input/ceiling.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import { findAgent } from "../../platforms/agents/agent_record.ts";
import { findConnection } from "../../platforms/platform_record.ts";
import type { Constraint } from "../../protocol/constraints/constraints.ts";
import type { DelegationFields } from "../../protocol/documents/certificate.ts";
import { coversScopes } from "../../protocol/documents/scopes.ts";
import { approvedEnd, type ExpiryWish } from "../expiry.ts";
import { certificateFields, type Grant } from "./certificate_fields.ts";
import { findRequest, isPending, type RequestRecord } from "./request_record.ts";
import { widens } from "./widening.ts";

/** What an approver would lend. */
export type ApprovalWish = {
  approvedScope: readonly string[];
  expiry: ExpiryWish;
  /** Hold besides those that were requested. */
  constraints: readonly unknown[];
};

/** An approval that may be given: the grant, what its certificate says, and the platform's ceiling. */
export type JudgedApproval = {
  request: RequestRecord;
  grant: Grant;
  fields: DelegationFields;
  ceiling: string[];
};

/**
 * Judges an approval: at most what was requested, within both ceilings, and a certificate that can be met.
 * Nothing is stored or signed.
 *
 * Throws `not_found`, `request_not_pending`, `scope_not_requested`, `ceiling_exceeded`, `invalid_expiry`,
 * `invalid_constraints`, `constraint_widened`.
 */
export async function judgeApproval(
  { db, clock }: { db: Database; clock: Clock },
  owner: Owner,
  requestId: string,
  wish: ApprovalWish,
): Promise<JudgedApproval> {
  const now = clock.now();
  const caller = { accountId: owner.accountId, connectionId: null };
  const request = await findRequest(db, caller, requestId, now);
  if (!isPending(request, now)) throw new ApiError("request_not_pending");
  const { default_allowed_scopes: ceiling } = await findConnection(
    db,
    owner.accountId,
    request.connection_id,
  );
  const agent = await findAgent(db, request.connection_id, request.agent_id);
  const grant = grantOf({ owner, agent, request, wish, now });
  checkCeiling(ceiling, grant.scope);
  checkAccountCeiling(owner.rootCeiling, grant.scope);
  const fields = certificateFields(grant);
  checkTighter(fields.constraints, request.constraints.length);
  return { request, grant, fields, ceiling };
}

type GrantInput = { owner: Owner; agent: AgentRow; request: RequestRecord; wish: ApprovalWish; now: Date };

function grantOf({ owner, agent, request, wish, now }: GrantInput): Grant {
  const scope = [...new Set(wish.approvedScope)];
  const wider = coversScopes(request.requested_scope, scope);
  if (scope.length === 0) throw new ApiError("scope_not_requested", "approved_scope: empty");
  if (wider.length > 0) throw new ApiError("scope_not_requested", `Not requested: ${named(wider)}`);
  const requested = {
    at: request.requested_expires_at && unixSeconds(request.requested_expires_at),
    inSeconds: request.requested_expires_in,
  };
  return {
    certId: newCertificateId(),
    owner,
    agent,
    scope,
    constraints: together(request.constraints, wish.constraints),
    issuedAt: unixSeconds(now),
    end: approvedEnd(requested, wish.expiry, now),
  };
}

/** The approver's constraints besides the requested ones; one that is in both stays one. */
function together(requested: readonly unknown[], approver: readonly unknown[]): unknown[] {
  const added = approver.filter((each) => !requested.some((known) => isDeepStrictEqual(known, each)));
  return [...requested, ...added];
}

/**
 * Of the constraints, the first `requested` are those that were asked for. One that is added and allows more
 * would change nothing, since both hold: who adds it means something else.
 */
function checkTighter(constraints: readonly Constraint[], requested: number): void {
  for (const [place, added] of constraints.slice(requested).entries()) {
    if (constraints.slice(0, requested).some((known) => widens(known, added))) {
      throw new ApiError(
        "constraint_widened",
        `constraints.${requested + place}: ${added.type} allows more than the one that was requested`,
      );
    }
  }
}
