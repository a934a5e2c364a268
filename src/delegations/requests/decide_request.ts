import { noteMail } from "../../accounts/mailings/queue.ts";
import { lockRole, mayApprove } from "../../accounts/member_role.ts";
import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvent } from "../../events/outbox.ts";
import { lockConnection } from "../../platforms/platform_record.ts";
import type { SessionCaller } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { findRequest } from "../delegation_records.ts";

/**
 * A cluster user who decided in the cluster, the member to whom this user is linked, and the hash of the
 * policies in force. `check` throws if the decision does not count. Otherwise the decision still counts when
 * the transaction ends.
 */
export type ClusterDecider = {
  clusterId: string;
  username: string;
  memberId: string;
  policies: string;
  check(tx: Transaction): Promise<void>;
};

type MemberDecider = {
  accountId: string;
  check?(tx: Transaction, request: DelegationRequestRow): Promise<void>;
};

/** The person who decides: a person with a session, or a cluster user on behalf of a member. */
export type Decider = MemberDecider | ClusterDecider;

type RequestDecision = {
  status: "approved" | "denied" | "withdrawn";
  by: Decider | null;
  reason: string | null;
  now: Date;
};

/**
 * Decides a pending request. Deletes the refused action's payload, which may be personal. Throws
 * `request_not_pending` if the request has expired or another decision came first. Runs the decider's
 * `check`. The caller must hold the connection's lock.
 */
export async function decideRequest(
  tx: Transaction,
  requestId: string,
  { status, by, reason, now }: RequestDecision,
): Promise<DelegationRequestRow> {
  const [row] = await tx("delegation_requests")
    .where({ request_id: requestId, status: "pending" })
    .andWhere("expires_at", ">", now)
    .update({
      status,
      ...columnsOf(by),
      reason,
      decided_at: now,
      refusal: tx.raw("refusal #- '{operation,payload}'"),
    })
    .returning("*");
  if (row === undefined) throw new ApiError("request_not_pending");
  await by?.check?.(tx, row);
  await noteDecision(tx, requestId, status, now);
  return row;
}

/** Notes the mails about a decided request. */
export async function noteDecision(
  tx: Transaction,
  requestId: string,
  status: RequestDecision["status"],
  now: Date,
): Promise<void> {
  if (status !== "withdrawn") await noteMail(tx, "request_decided", requestId, now);
  if (status === "approved") await noteMail(tx, "authority_lent", requestId, now);
}

function columnsOf(by: Decider | null): Partial<DelegationRequestRow> {
  if (by === null) return {};
  if ("accountId" in by) return { decided_by: by.accountId };
  return {
    decided_cluster: by.clusterId,
    decided_user: by.username,
    decided_policies: by.policies,
  };
}

/**
 * Returns the signed-in person as the decider. In an organization, `check` looks up the role again when the
 * approval is stored, so a member who was removed in the meantime cannot approve. If the organization
 * requires four eyes, `check` also throws if the approver is the requester, or connected the product that
 * asks.
 */
export function memberDecider({ accountId, organization, person }: SessionCaller): MemberDecider {
  const decider = { accountId: person.accountId };
  if (!organization) return decider;
  return {
    ...decider,
    async check(tx, { requested_by, connected_by }) {
      const { role, fourEyes } = await lockRole(tx, accountId, person.accountId);
      if (!mayApprove(role)) throw new ApiError("forbidden");
      const asker = requested_by ?? connected_by;
      if (fourEyes && (asker === null || asker === person.accountId)) {
        throw new ApiError("four_eyes_required");
      }
    },
  };
}

/** Denies a pending request and emits `delegation.denied`. Throws `not_found`, `request_not_pending`. */
export async function denyRequest(
  { db, secretBox, clock }: { db: Database; secretBox: SecretBox; clock: Clock },
  accountId: string,
  requestId: string,
  { reason, decider }: { reason: string | null; decider: Decider },
): Promise<void> {
  const { connection_id, agent_id } = await findRequest(
    db,
    { accountId, connectionId: null },
    requestId,
    clock.now(),
  );
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const now = clock.now();
    await decideRequest(tx, requestId, { status: "denied", by: decider, reason, now });
    const fields = { request_id: requestId, connection_id, org_id: accountId, agent_id };
    await appendEvent(tx, secretBox, { type: "delegation.denied", connectionId: connection_id, fields }, now);
  });
}

/** Withdraws a pending request on behalf of whoever made it. Throws `request_not_pending`. */
export async function withdrawRequest(
  { db, clock }: { db: Database; clock: Clock },
  { requestId, connectionId }: { requestId: string; connectionId: string },
): Promise<void> {
  await db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    await decideRequest(tx, requestId, { status: "withdrawn", by: null, reason: null, now: clock.now() });
  });
}
