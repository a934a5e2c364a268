import { noteMail } from "../../accounts/mailings/queue.ts";
import { addSeconds, type Clock, signingSeconds } from "../../clock.ts";
import { clusterOf } from "../../clusters/identify_operator.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow, DelegationRequestRow, Refusal } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { newCertificateId, newRequestId } from "../../ids.ts";
import { checkCeiling, checkScopes } from "../../input/ceiling.ts";
import { columnsOf, type DeclaredFields } from "../../input/declared_fields.ts";
import type { ScopeDescriptions } from "../../input/platform_fields.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import { findAgent } from "../../platforms/agents/agents.ts";
import {
  findPrincipalConnection,
  lockConnection,
  type PrincipalConnection,
} from "../../platforms/platform_record.ts";
import { pickDescriptions } from "../../platforms/scope_descriptions.ts";
import { endOf, type RequestedExpiry } from "../requested_end.ts";
import { type AskedByKey, checkAsking, findSameRequest } from "./agent_requests.ts";
import { certificateFields } from "./certificate_fields.ts";
import { checkPending } from "./pending_limits.ts";

const PENDING_SECONDS = 7 * 24 * 3600;

/**
 * Input for requesting a delegation. Without `agentId`, the request is for the connection's only agent.
 * Without `scope`, it asks for the whole ceiling. `externalId` and `objectName` identify a Kubernetes object.
 * `check` throws if the object may no longer declare the request.
 */
export type NewRequest = {
  connectionId: string;
  agentId?: string | undefined;
  scope?: readonly string[] | undefined;
  expiry: RequestedExpiry;
  constraints: readonly unknown[];
  /** Why the agent needs it. */
  purpose: string | null;
  /** The person with a session who makes the request. */
  requestedBy?: string;
  /** Whether that person's account is a personal one. */
  isAlone?: boolean;
  externalId: string | null;
  objectName?: string;
  declared?: DeclaredFields;
  /** For a request that is made with an API key. */
  asked?: AskedByKey;
  check?(tx: Transaction): Promise<void>;
};

/**
 * Files a request, which stays pending for 7 days. Refuses a request that could not be granted later. If a
 * request with this external id exists, returns that request after the same checks. Returns a pending request
 * that was made with an API key for the same scopes, constraints and action again.
 *
 * Throws `not_found`, `no_agent`, `agent_required`, `agent_disabled`, `invalid_scopes`, `ceiling_exceeded`,
 * `invalid_expiry`, `invalid_constraints`, `request_limit`, and `denied_recently` for a request that is made
 * with an API key.
 */
export async function requestDelegation(
  { db, clock }: { db: Database; clock: Clock },
  owner: Owner,
  newRequest: NewRequest,
): Promise<DelegationRequestRow> {
  const { connection_id } = await findPrincipalConnection(db, owner.accountId, newRequest.connectionId);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const connection = await findPrincipalConnection(tx, owner.accountId, connection_id);
    await newRequest.check?.(tx);
    const agent = await chooseAgent(tx, connection_id, newRequest.agentId);
    const scope = chooseScope(connection, newRequest.scope);
    const now = clock.now();
    checkGrantable(owner, agent, scope, newRequest, now);
    const { asked } = newRequest;
    if (asked !== undefined) {
      const sought = {
        agentId: agent.agent_id,
        scopes: scope,
        constraints: newRequest.constraints,
        action: asked.action,
        byAgent: asked.refusal !== null,
      };
      const same = await findSameRequest(tx, sought, now);
      if (same !== undefined) return same;
      await checkAsking(tx, agent, scope, now);
    }
    const { requestedBy = null, isAlone = false, externalId = null } = newRequest;
    const clusterId = externalId === null ? null : clusterOf(externalId);
    const asking = { accountId: agent.account_id, connectionId: connection_id };
    const requester = {
      ...asking,
      requestedBy,
      clusterId,
      isAlone,
      byKey: asked !== undefined,
      isCustomer: connection.is_customer,
    };
    await checkPending(tx, requester, now);
    const words = pickDescriptions(connection.scope_descriptions, scope);
    return insertRequest(tx, agent, { scope, words, connectedBy: connection.connected_by }, newRequest, now);
  });
}

async function chooseAgent(
  tx: Transaction,
  connectionId: string,
  agentId: string | undefined,
): Promise<AgentRow> {
  if (agentId !== undefined) {
    const agent = await findAgent(tx, connectionId, agentId);
    if (agent.disabled_at !== null) throw new ApiError("agent_disabled");
    return agent;
  }
  const [agent, another] = await tx("agents")
    .where({ connection_id: connectionId })
    .whereNull("disabled_at")
    .limit(2);
  if (agent === undefined) throw new ApiError("no_agent");
  if (another !== undefined) throw new ApiError("agent_required");
  return agent;
}

function chooseScope(
  { allowed_scopes }: PrincipalConnection,
  wanted: readonly string[] | undefined,
): string[] {
  if (wanted === undefined) return allowed_scopes;
  const scope = checkScopes(wanted);
  checkCeiling(allowed_scopes, scope);
  return scope;
}

/** Checks that a certificate for the whole request can be built. Throws otherwise. */
function checkGrantable(
  owner: Owner,
  agent: AgentRow,
  scope: string[],
  newRequest: NewRequest,
  now: Date,
): void {
  certificateFields({
    certId: newCertificateId(),
    owner,
    agent,
    scope,
    constraints: newRequest.constraints,
    issuedAt: signingSeconds(now),
    end: endOf(newRequest.expiry, now),
    onlyAction: null,
  });
}

async function insertRequest(
  tx: Transaction,
  agent: AgentRow,
  { scope, words, connectedBy }: { scope: string[]; words: ScopeDescriptions; connectedBy: string | null },
  { expiry, constraints, purpose, requestedBy, declared, externalId, objectName, asked }: NewRequest,
  now: Date,
): Promise<DelegationRequestRow> {
  const requestId = newRequestId();
  const [filed] = await tx("delegation_requests")
    .insert({
      request_id: requestId,
      account_id: agent.account_id,
      connection_id: agent.connection_id,
      agent_id: agent.agent_id,
      requested_scope: scope,
      scope_descriptions: words,
      purpose,
      constraints: JSON.stringify(constraints) as unknown as unknown[],
      requested_expires_at: expiry.at === null ? null : new Date(expiry.at * 1000),
      requested_expires_in: expiry.inSeconds,
      status: "pending",
      external_id: externalId,
      object_name: objectName ?? null,
      requested_by: requestedBy ?? null,
      connected_by: connectedBy,
      ...columnsOf(declared),
      refusal: asked?.refusal ? (JSON.stringify(asked.refusal) as unknown as Refusal) : null,
      refused_action: asked?.action ?? null,
      created_at: now,
      expires_at: addSeconds(now, PENDING_SECONDS),
    })
    .onConflict("external_id")
    .ignore()
    .returning("request_id");
  if (filed !== undefined) await noteMail(tx, "request_waits", requestId, now);
  const key = externalId === null ? { request_id: requestId } : { external_id: externalId };
  const row = await tx("delegation_requests").where(key).first();
  if (row === undefined) throw new Error("The delegation request was not stored");
  return row;
}
