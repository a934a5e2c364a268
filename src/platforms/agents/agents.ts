import { createHash } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow, Json } from "../../db/tables.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import { appendEvents } from "../../events/outbox.ts";
import { isKeyId } from "../../ids.ts";
import type { AgentType } from "../../input/platform_fields.ts";
import { checkNewName } from "../../input/scripts.ts";
import type { Logger } from "../../log.ts";
import { keyId } from "../../protocol/keys/hybrid.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { VaultClient } from "../../vault/client.ts";
import { prefixesOf } from "../api_keys/narrow_keys.ts";
import type { RetireDeps } from "../api_keys/rotate_key.ts";
import { revocationEvents, revokeCertificates, withdrawRequests } from "../end_authority.ts";
import {
  type CheckChange,
  findPrincipalConnection,
  lockConnection,
  type PrincipalConnection,
} from "../platform_record.ts";
import { syncVault, type VaultSyncDeps } from "../sync_vault.ts";

/**
 * Returns the connection's agent with this id, deleted or not. Throws `not_found` if the connection has none.
 */
export async function findAgent(
  db: Database | Transaction,
  connectionId: string,
  agentId: string,
): Promise<AgentRow> {
  if (!isKeyId(agentId)) throw new ApiError("not_found");
  const row = await db("agents").where({ agent_id: agentId, connection_id: connectionId }).first();
  if (row === undefined) throw new ApiError("not_found");
  return row;
}

/**
 * `attemptKey` identifies the attempt: a retry with the same key finds the vault key of the first attempt.
 * `externalId` and `objectName` identify the Kubernetes object that declares the agent. `check` throws if the
 * object may no longer declare it.
 */
export type NewAgent = {
  accountId: string;
  connectionId: string;
  name: string;
  agentType: AgentType;
  attemptKey: string;
  externalId: string | null;
  objectName: string | null;
  check?: CheckChange;
};

/** Dependencies of creating agents. */
export type CreateAgentDeps = {
  db: Database;
  vault: Pick<VaultClient, "createKey" | "disableKey" | "shrinkCeiling">;
  clock: Clock;
  log: Logger;
};

type VaultKey = Awaited<ReturnType<VaultClient["createKey"]>>;

/**
 * Creates a custodial agent. The vault creates and keeps its hybrid key under the platform's ceiling. The
 * key's id becomes the agent's id. Throws `invalid_request`, `not_found`, `external_conflict`,
 * `VaultUnavailable`, `VaultRefused`, and `rate_limited` if a customer connection has 100 live agents.
 */
export async function createAgent(deps: CreateAgentDeps, newAgent: NewAgent): Promise<AgentRow> {
  checkNewName(newAgent.name);
  const connection = await findPrincipalConnection(deps.db, newAgent.accountId, newAgent.connectionId);
  if (await hasNoRoom(deps.db, connection)) throw noRoom();
  const key = await createVaultKey(deps, newAgent, connection);
  const { agent, isFull } = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connection.connection_id);
    const current = await findPrincipalConnection(tx, newAgent.accountId, connection.connection_id);
    await newAgent.check?.(tx);
    const isFull = await hasNoRoom(tx, current);
    const now = deps.clock.now();
    const agent = await insertAgent(tx, newAgent, key, {
      now,
      isFull,
      stale: hasChanged(connection, current),
    });
    return { agent, isFull };
  });
  if (agent.vault_due_at !== null) await syncVault(deps, connection.connection_id);
  if (isFull) throw noRoom();
  if (agent.disabled_at === null || newAgent.externalId !== null) return agent;
  // An earlier call with this attempt key found no room for this agent, or the agent was deleted.
  return createAgent(deps, { ...newAgent, attemptKey: `${newAgent.attemptKey} ${agent.agent_id}` });
}

/** The most live agents of a customer connection. */
const MAX_CUSTOMER_AGENTS = 100;

/** Returns whether a customer connection has no room for another agent. */
async function hasNoRoom(
  db: Database | Transaction,
  { connection_id, is_customer }: PrincipalConnection,
): Promise<boolean> {
  if (!is_customer) return false;
  const [live] = await db("agents").where({ connection_id }).whereNull("disabled_at").count();
  return Number(live?.count) >= MAX_CUSTOMER_AGENTS;
}

function noRoom(): ApiError {
  return rateLimited(`The customer connection has ${MAX_CUSTOMER_AGENTS} agents. Delete one`, DAY_MS);
}

const DAY_MS = 86_400_000;

/** The idempotency key for the vault covers every value that the vault compares between two attempts. */
async function createVaultKey(
  { vault }: CreateAgentDeps,
  newAgent: NewAgent,
  connection: PrincipalConnection,
): Promise<VaultKey> {
  const order = {
    tenant: newAgent.accountId,
    purpose: "agent" as const,
    label: newAgent.name,
    ceiling: connection.ceiling,
  };
  const attempt = JSON.stringify([connection.connection_id, newAgent.attemptKey, order]);
  return vault.createKey(order, createHash("sha256").update(attempt).digest("hex"));
}

function hasChanged(before: PrincipalConnection, after: PrincipalConnection): boolean {
  return before.ceiling.join() !== after.ceiling.join();
}

/**
 * If there is no room, stores the agent as deleted, so that the vault disables its key. Otherwise a race for
 * the last place would leave active keys, which count for the customer.
 */
async function insertAgent(
  tx: Transaction,
  newAgent: NewAgent,
  key: VaultKey,
  { now, isFull, stale }: { now: Date; isFull: boolean; stale: boolean },
): Promise<AgentRow> {
  const agentId = keyId(key.public_key);
  await tx("agents")
    .insert({
      agent_id: agentId,
      account_id: newAgent.accountId,
      connection_id: newAgent.connectionId,
      name: newAgent.name,
      agent_type: newAgent.agentType,
      custody_mode: "custodial",
      vault_key_id: key.key_id,
      public_key: key.public_key,
      attestation: key.attestation as Json,
      external_id: newAgent.externalId,
      object_name: newAgent.objectName,
      created_at: now,
      disabled_at: isFull ? now : null,
      vault_due_at: stale || isFull ? now : null,
    })
    .onConflict()
    .ignore();
  const made = tx("agents").where({ connection_id: newAgent.connectionId });
  const row = await (newAgent.externalId === null
    ? made.where({ agent_id: agentId })
    : made.where({ external_id: newAgent.externalId })
  ).first();
  if (row === undefined) throw new ApiError("external_conflict");
  return row;
}

const REASON = "agent deleted";

/**
 * Deletes an agent permanently. Ends its API keys. Revokes its certificates, emits one `delegation.revoked`
 * for each, and withdraws its pending requests. The deletion is valid even before the vault disables the key.
 * Returns the time of the deletion; a repeated call returns the same time. Throws `not_found`.
 */
export async function deleteAgent(
  deps: VaultSyncDeps & RetireDeps,
  connectionId: string,
  agentId: string,
  check?: CheckChange,
): Promise<Date> {
  const { disabledAt, ended } = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    const agent = await findAgent(tx, connectionId, agentId);
    if (agent.disabled_at !== null) return { disabledAt: agent.disabled_at, ended: [] };
    await check?.(tx);
    const now = deps.clock.now();
    // The database ends the agent's API keys.
    await tx("agents").where({ agent_id: agentId }).update({ disabled_at: now, vault_due_at: now });
    const ended = await prefixesOf(tx, { connection_id: connectionId, agent_id: agentId });
    await endDelegations(tx, deps.secretBox, agent, now);
    return { disabledAt: now, ended };
  });
  deps.apiKeys.forget(ended);
  await syncVault(deps, connectionId);
  return disabledAt;
}

/** Revokes the certificates last, because decisions on these certificates wait from then until the commit. */
async function endDelegations(
  tx: Transaction,
  secretBox: SecretBox,
  agent: AgentRow,
  now: Date,
): Promise<void> {
  const authority = { connection_id: agent.connection_id, agent_id: agent.agent_id };
  await withdrawRequests(tx, authority, REASON, now);
  await appendEvents(tx, secretBox, await revocationEvents(tx, authority, REASON, now), now);
  await revokeCertificates(tx, authority, REASON, now);
}
