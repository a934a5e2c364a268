import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { type AgentWish, type CreateAgentDeps, createAgent } from "../agents/create_agent.ts";
import { adoptAgent } from "./adopt_agent.ts";
import { requireBoundConnection } from "./bound_owner.ts";
import { findDeclaredPlatform, requireDeclaredPlatform, requireSamePlace } from "./declared_platform.ts";

/** An agent as a Kubernetes object declares it. */
export type DeclaredAgent = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  platformExternalId: string;
  name: string;
  agentType: AgentWish["agentType"];
  /** The agent that it takes over instead of creating one. */
  adopt?: string | undefined;
};

/**
 * Makes a declared agent true: creates it at first, renames it later. A deleted one stays deleted. It may be
 * repeated at any time. Throws `not_found` when its platform is not registered, `namespace_not_bound` for a
 * new one, or a new name, when the account no longer accepts the namespace, `external_conflict` when the
 * object was registered for another platform or as another type or agent, or lies in another namespace than
 * its platform; `adoption_not_confirmed`, `VaultUnavailable`, `VaultRefused`.
 */
export async function putAgent(deps: CreateAgentDeps, declared: DeclaredAgent): Promise<AgentRow> {
  const registered = await findDeclaredAgent(deps.db, declared.externalId);
  if (registered !== undefined) return changeDeclared(deps.db, registered, declared);
  const platform = await requireDeclaredPlatform(deps.db, declared.platformExternalId);
  requireSamePlace(platform, declared.object);
  const { connection_id: connectionId } = platform;
  const check = (tx: Transaction) =>
    requireBoundConnection(tx, connectionId, declared.clusterId, { lock: true });
  const adopted = await adoptAgent(deps, platform, { ...declared, check });
  if (adopted !== undefined) return changeDeclared(deps.db, adopted, declared);
  const agent = await createAgent(deps, {
    accountId: platform.account_id,
    connectionId,
    name: declared.name,
    agentType: declared.agentType,
    attemptKey: declared.externalId,
    externalId: declared.externalId,
    objectName: declared.object.name,
    check,
  });
  return changeDeclared(deps.db, agent, declared);
}

async function changeDeclared(db: Database, known: AgentRow, declared: DeclaredAgent): Promise<AgentRow> {
  const platform = await findDeclaredPlatform(db, declared.platformExternalId);
  if (platform?.connection_id !== known.connection_id) {
    throw new ApiError("external_conflict", "Registered for another platform");
  }
  if (known.agent_type !== declared.agentType) {
    throw new ApiError("external_conflict", "agent_type cannot change");
  }
  if (declared.adopt !== undefined && declared.adopt !== known.agent_id) {
    throw new ApiError("external_conflict", `Registered as agent ${known.agent_id} already`);
  }
  const { clusterId, object, name } = declared;
  // One that was registered before names were noted has the one that it is declared under next.
  const isHere = platform.object_namespace === object.namespace;
  const next = { name, object_name: known.object_name ?? (isHere ? object.name : null) };
  if (known.name === name && known.object_name === next.object_name) return known;
  if (known.name !== name) await requireBoundConnection(db, known.connection_id, clusterId);
  await db("agents").where({ agent_id: known.agent_id }).update(next);
  return { ...known, ...next };
}

/** The agent that an object declares, deleted or not. */
export async function findDeclaredAgent(db: Database, externalId: string): Promise<AgentRow | undefined> {
  return db("agents").where({ external_id: externalId }).first();
}
