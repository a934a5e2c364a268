import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { appendEvent } from "../../events/outbox.ts";
import { newRequestId } from "../../ids.ts";
import { checkCeiling } from "../../input/ceiling.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import { findPrincipalConnection, lockConnection } from "../../platforms/platform_record.ts";
import { type DelegationCert, delegationSignBytes } from "../../protocol/documents/certificate.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { VaultClient } from "../../vault/client.ts";
import type { RequestRecord } from "../delegation_records.ts";
import { certificateFields, type Grant } from "./certificate_fields.ts";
import { type Decider, decideRequest, noteDecision } from "./decide_request.ts";
import { type ApprovalTerms, judgeApproval } from "./judge_approval.ts";
import { findSdkWarnings, type SdkWarning } from "./sdk_warnings.ts";
import { separateTerms, storeSeparateRequest } from "./separate_scope.ts";

/**
 * The terms that an approver grants. `channel` states where the person approved. `separateScope` has the
 * scopes of a second, linked delegation, without the amount limits of `constraints`.
 */
type Approval = ApprovalTerms & {
  separateScope?: readonly string[] | undefined;
  channel: "session" | "kubernetes";
  decider: Decider;
};

/** The certificate that an approval created. `expiresAt` is `null` if the certificate does not expire. */
type Approved = {
  certId: string;
  approvedScope: string[];
  issuedAt: Date;
  expiresAt: Date | null;
  warnings: SdkWarning[];
  linkedCertId?: string;
};

type ApproveDeps = SignDeps & { db: Database; secretBox: SecretBox; clock: Clock };

/** A certificate that is signed but not stored yet. */
type Draft = { requestId: string; grant: Grant; certificate: DelegationCert };

/** The signed certificates of one approval, and who approved what. */
type Drafts = {
  owner: Owner;
  request: RequestRecord;
  channel: Approval["channel"];
  decider: Decider;
  draft: Draft;
  linked: Draft | undefined;
};

/**
 * Approves a pending request. The vault signs a certificate for exactly the approved scope. The vault signs
 * before the transaction starts, so the request stays pending if the vault is unavailable. Concurrent
 * approvals create only one certificate. A `separateScope` creates a second certificate in the same
 * transaction, with a request of its own.
 *
 * Throws `VaultUnavailable`, `VaultRefused`, and what {@link judgeApproval} and {@link separateTerms} throw.
 */
export async function approveRequest(
  deps: ApproveDeps,
  owner: Owner,
  requestId: string,
  { separateScope, channel, decider, ...terms }: Approval,
): Promise<Approved> {
  const judged = await judgeApproval(deps, owner, requestId, terms);
  const { request } = judged;
  const separate =
    separateScope &&
    (await judgeApproval(deps, owner, requestId, separateTerms(request, terms, separateScope)));
  if (separate !== undefined) makeNewest(judged.grant, separate.grant);
  const { grant } = judged;
  const approvedBy = approverOf(decider);
  const sign = async ({ grant, ceiling }: typeof judged, requestId: string): Promise<Draft> => {
    const certificate = await signGrant(deps, grant, { ceiling, requestId, approvedBy });
    return { requestId, grant, certificate };
  };
  const draft = await sign(judged, requestId);
  const linked = separate && (await sign(separate, newRequestId()));
  await deps.db.transaction((tx) =>
    storeApproval(tx, deps, { owner, request, channel, decider, draft, linked }),
  );
  const { certificate } = draft;
  return {
    certId: grant.certId,
    approvedScope: [...grant.scope],
    issuedAt: timeOf(grant.issuedAt),
    expiresAt: grant.end === null ? null : timeOf(grant.end),
    warnings: findSdkWarnings(certificate.constraints),
    ...(linked && { linkedCertId: linked.grant.certId }),
  };
}

/**
 * Makes the certificate of `grant` the newer one of two. An application that presents a proof without naming
 * a scope gets the newest certificate, and must keep the scopes that have the limit.
 */
function makeNewest(grant: Grant, other: Grant): void {
  const [older = "", newer = ""] = [grant.certId, other.certId].sort();
  [grant.certId, other.certId] = [newer, older];
  [grant.issuedAt, other.issuedAt] = [other.issuedAt, grant.issuedAt];
}

/** A cluster's user approves on behalf of the member to whom the user is linked. */
function approverOf(decider: Decider): string {
  return "accountId" in decider ? decider.accountId : decider.memberId;
}

/** The drafts, and whether the certificate counts at its customer connection only. */
type Place = Drafts & { isCustomer: boolean };

/** Reads the request and the ceiling again, under the lock. Throws if they no longer permit the approval. */
async function storeApproval(
  tx: Transaction,
  { secretBox, clock }: ApproveDeps,
  drafts: Drafts,
): Promise<void> {
  const { owner, request, decider, draft, linked } = drafts;
  const { request_id, connection_id } = request;
  await lockConnection(tx, connection_id);
  const now = clock.now();
  const approved = await decideRequest(tx, request_id, {
    status: "approved",
    by: decider,
    reason: null,
    now,
  });
  const connection = await findPrincipalConnection(tx, owner.accountId, connection_id);
  const both = linked === undefined ? [draft] : [draft, linked];
  for (const { grant } of both) checkCeiling(connection.allowed_scopes, grant.scope);
  if (linked !== undefined) {
    await storeSeparateRequest(tx, approved, { requestId: linked.requestId, scope: linked.grant.scope });
    await noteDecision(tx, linked.requestId, "approved", now);
  }
  const place = { ...drafts, isCustomer: connection.is_customer };
  for (const each of both) await storeCertificate(tx, secretBox, place, each, now);
}

/** Stores a certificate, and emits `delegation.approved`. */
async function storeCertificate(
  tx: Transaction,
  secretBox: SecretBox,
  { owner, request: { connection_id, agent_id }, channel, decider, isCustomer }: Place,
  { requestId: request_id, grant, certificate }: Draft,
  now: Date,
): Promise<void> {
  const certJson = canonicalJson(certificate);
  const isRestricted = isCustomer || grant.onlyAction !== null;
  await tx("certificates").insert({
    account_id: owner.accountId,
    cert_id: grant.certId,
    connection_id,
    agent_id,
    request_id,
    approved_scope: [...grant.scope],
    only_action: grant.onlyAction,
    only_at: isCustomer ? connection_id : null,
    // A process of the version before ignores both restrictions, so it must deny.
    ceiling_scope: isRestricted ? [] : null,
    cert_json: certJson,
    status: "approved",
    issued_at: timeOf(grant.issuedAt),
    expires_at: grant.end === null ? null : timeOf(grant.end),
    approved_by: approverOf(decider),
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

/** Dependencies for signing a certificate. */
export type SignDeps = { vault: Pick<VaultClient, "signDelegation"> };

/**
 * Has the vault sign the certificate for a grant. The vault first checks the grant against `ceiling` and
 * against the agent key's ceiling. Throws `invalid_constraints`, `VaultUnavailable`, `VaultRefused`.
 */
async function signGrant(
  { vault }: SignDeps,
  grant: Grant,
  { ceiling, requestId, approvedBy }: { ceiling: string[]; requestId: string; approvedBy: string },
): Promise<DelegationCert> {
  const { issuer_pub_key, ...certificate } = certificateFields(grant);
  const key = { tenant: grant.owner.accountId, keyId: grant.owner.rootKeyId };
  const approval = { ceiling, request_id: requestId, approved_by: approvedBy };
  const signed = await vault.signDelegation(key, certificate, approval);
  const asked = delegationSignBytes({ ...certificate, issuer_pub_key });
  if (Buffer.compare(delegationSignBytes(signed), asked) !== 0) {
    throw new Error("The vault signed another certificate than the one it was asked for");
  }
  return signed;
}
