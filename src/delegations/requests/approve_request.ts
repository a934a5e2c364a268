import { isDeepStrictEqual } from "node:util";
import { type Clock, unixSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvent } from "../../events/outbox.ts";
import { newCertificateId } from "../../ids.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import { findAgent } from "../../platforms/agents/agent_record.ts";
import { checkAccountCeiling, checkCeiling, named } from "../../platforms/ceiling.ts";
import { lockConnection } from "../../platforms/connection_lock.ts";
import { findConnection } from "../../platforms/platform_record.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import { coversScopes } from "../../protocol/documents/scopes.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import type { SecretBox } from "../../secret_box.ts";
import { approvedEnd, type ExpiryWish } from "../expiry.ts";
import type { Grant } from "./certificate_fields.ts";
import { type Decider, decideRequest } from "./decide_request.ts";
import { findRequest, isPending, type RequestRecord } from "./request_record.ts";
import { type SignDeps, signGrant } from "./sign_grant.ts";

/** What an approver grants, at most what was requested; `channel` is where the approval was given. */
export type Approval = {
  approvedScope: readonly string[];
  expiry: ExpiryWish;
  /** Hold besides those that were requested. */
  constraints: readonly unknown[];
  channel: "session" | "kubernetes";
  decider: Decider;
};

/** The certificate of an approval; `expiresAt` is `null` when it does not expire. */
export type Approved = { certId: string; approvedScope: string[]; issuedAt: Date; expiresAt: Date | null };

type ApproveDeps = SignDeps & { db: Database; secretBox: SecretBox; clock: Clock };

/** A certificate that is signed and not stored yet. */
type Draft = {
  owner: Owner;
  request: RequestRecord;
  grant: Grant;
  channel: Approval["channel"];
  decider: Decider;
  certificate: DelegationCert;
};

/**
 * Approves a pending request: the vault signs a certificate with the owner's root key for exactly the
 * approved scope, and the decision, the certificate and `delegation.approved` are stored together. The vault
 * signs before anything is stored, so without it the request stays pending; approvals that race give one
 * certificate.
 *
 * Throws `not_found`, `request_not_pending`, `scope_not_requested`, `ceiling_exceeded`, `invalid_expiry`,
 * `invalid_constraints`; `VaultUnavailable`, `VaultRefused`.
 */
export async function approveRequest(
  deps: ApproveDeps,
  owner: Owner,
  requestId: string,
  approval: Approval,
): Promise<Approved> {
  const now = deps.clock.now();
  const request = await findRequest(
    deps.db,
    { accountId: owner.accountId, connectionId: null },
    requestId,
    now,
  );
  if (!isPending(request, now)) throw new ApiError("request_not_pending");
  const { default_allowed_scopes: ceiling } = await findConnection(
    deps.db,
    owner.accountId,
    request.connection_id,
  );
  const agent = await findAgent(deps.db, request.connection_id, request.agent_id);
  const grant = grantOf({ owner, agent, request, approval, now });
  checkCeiling(ceiling, grant.scope);
  checkAccountCeiling(owner.rootCeiling, grant.scope);
  const { channel, decider } = approval;
  const approvedBy = approverOf(decider, owner);
  const certificate = await signGrant(deps, grant, { ceiling, requestId, approvedBy });
  const draft = { owner, request, grant, channel, decider, certificate };
  await deps.db.transaction((tx) => storeApproval(tx, deps, draft));
  return {
    certId: grant.certId,
    approvedScope: [...grant.scope],
    issuedAt: timeOf(grant.issuedAt),
    expiresAt: grant.end === null ? null : timeOf(grant.end),
  };
}

/** The account that approved: a cluster's user does so in the owner's place. */
function approverOf(decider: Decider, owner: Owner): string {
  return "accountId" in decider ? decider.accountId : owner.accountId;
}

type GrantInput = { owner: Owner; agent: AgentRow; request: RequestRecord; approval: Approval; now: Date };

function grantOf({ owner, agent, request, approval, now }: GrantInput): Grant {
  const scope = [...new Set(approval.approvedScope)];
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
    constraints: together(request.constraints, approval.constraints),
    issuedAt: unixSeconds(now),
    end: approvedEnd(requested, approval.expiry, now),
  };
}

/** The approver's constraints besides the requested ones; one that is in both stays one. */
function together(requested: readonly unknown[], approver: readonly unknown[]): unknown[] {
  const added = approver.filter((each) => !requested.some((known) => isDeepStrictEqual(known, each)));
  return [...requested, ...added];
}

/**
 * Under the connection's lock all is as it was judged, or the approval is refused: the request and the
 * ceiling are read again.
 */
async function storeApproval(
  tx: Transaction,
  { secretBox, clock }: ApproveDeps,
  draft: Draft,
): Promise<void> {
  const { owner, request, grant, certificate, channel, decider } = draft;
  const { request_id, connection_id, agent_id } = request;
  await lockConnection(tx, connection_id);
  const now = clock.now();
  await decideRequest(tx, request_id, { status: "approved", by: decider, reason: null, now });
  const platform = await findConnection(tx, owner.accountId, connection_id);
  checkCeiling(platform.default_allowed_scopes, grant.scope);
  const certJson = canonicalJson(certificate);
  await tx("certificates").insert({
    account_id: owner.accountId,
    cert_id: grant.certId,
    connection_id,
    agent_id,
    request_id,
    approved_scope: [...grant.scope],
    cert_json: certJson,
    status: "approved",
    issued_at: timeOf(grant.issuedAt),
    expires_at: grant.end === null ? null : timeOf(grant.end),
    approved_by: approverOf(decider, owner),
    approval_channel: channel,
  });
  const fields = {
    request_id,
    connection_id,
    org_id: owner.accountId,
    agent_id,
    approved_scope: [...grant.scope],
    cert_json: JSON.parse(certJson),
    delegation_key_statement: grant.agent.attestation,
  };
  await appendEvent(tx, secretBox, { type: "delegation.approved", connectionId: connection_id, fields }, now);
}

function timeOf(seconds: number): Date {
  return new Date(seconds * 1000);
}
