import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { checkNewName } from "../../input/scripts.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import { type CreateAgentDeps, createAgent, type NewAgent } from "../agents/agents.ts";
import { BY_OPERATOR } from "../api_keys/api_key.ts";
import type { CheckChange, LivePlatform } from "../platform_record.ts";
import { notConfirmed, noteTakenOver, requireNotReleased, useConfirmation } from "./adoption.ts";
import { boundConnectionCheck } from "./bound_owner.ts";
import { findDeclaredPlatform, requireDeclaredPlatform, requireSamePlace } from "./declared_platform.ts";

type DeclaredAgent = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  platformExternalId: string;
  name: string;
  agentType: NewAgent["agentType"];
  /** The id of an existing agent that the object takes over. */
  adopt?: string | undefined;
};

/**
 * Creates a declared agent the first time, and renames it later. A deleted agent stays deleted. The call may
 * be repeated at any time.
 *
 * Throws `not_found` if the agent's platform is not registered, and `namespace_not_bound` for a new agent or
 * a new name if the account no longer accepts the namespace. Throws `external_conflict` if the object was
 * registered for a different platform, agent or type, or is not in its platform's namespace. Also throws
 * `adoption_not_confirmed`, `action_limited`, `VaultUnavailable`, `VaultRefused`.
 */
export async function putAgent(
  deps: CreateAgentDeps & { actionLimits: ActionLimits },
  declared: DeclaredAgent,
): Promise<AgentRow> {
  const registered = await findDeclaredAgent(deps.db, declared.externalId);
  if (registered !== undefined) return changeDeclared(deps.db, registered, declared);
  const platform = await requireDeclaredPlatform(deps.db, declared.platformExternalId);
  requireSamePlace(platform, declared.object);
  const { connection_id: connectionId } = platform;
  const check = boundConnectionCheck(connectionId, declared.clusterId);
  const adopted = await adoptAgent(deps, platform, { ...declared, check });
  if (adopted !== undefined) return changeDeclared(deps.db, adopted, declared);
  const newAgent = {
    accountId: platform.account_id,
    connectionId,
    name: declared.name,
    agentType: declared.agentType,
    attemptKey: declared.externalId,
    externalId: declared.externalId,
    objectName: declared.object.name,
    check,
  };
  const agent = await deps.actionLimits.within("create_agent", [connectionId, declared.object.name], () =>
    createAgent(deps, newAgent),
  );
  return changeDeclared(deps.db, agent, declared);
}

async function changeDeclared(db: Database, known: AgentRow, declared: DeclaredAgent): Promise<AgentRow> {
  const platform = await findDeclaredPlatform(db, declared.platformExternalId);
  if (platform?.connection_id !== known.connection_id) {
    throw new ApiError("external_conflict", "The agent is registered for another platform");
  }
  if (known.agent_type !== declared.agentType) {
    throw new ApiError("external_conflict", "agent_type cannot change");
  }
  if (declared.adopt !== undefined && declared.adopt !== known.agent_id) {
    throw new ApiError("external_conflict", `The object is already registered as agent ${known.agent_id}`);
  }
  const { clusterId, object, name } = declared;
  checkNewName(name, known.name);
  // Agents from before object names were stored get the name of the next object that declares them.
  const isHere = platform.object_namespace === object.namespace;
  const next = { name, object_name: known.object_name ?? (isHere ? object.name : null) };
  if (known.name === name && known.object_name === next.object_name) return known;
  await db.transaction(async (tx) => {
    if (known.name !== name) await boundConnectionCheck(known.connection_id, clusterId)(tx);
    await tx("agents").where({ agent_id: known.agent_id }).update(next);
  });
  return { ...known, ...next };
}

/** Returns the agent that an object declares, deleted or not. */
export async function findDeclaredAgent(db: Database, externalId: string): Promise<AgentRow | undefined> {
  return db("agents").where({ external_id: externalId }).first();
}

type AdoptDeps = { db: Database; clock: Clock };

type Newcomer = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  agentType: string;
  adopt?: string | undefined;
  /** Throws unless the account accepts the namespace until the transaction ends. */
  check: CheckChange;
};

/**
 * With `adopt`, finds the agent that the object names, if its owner has confirmed the adoption. Without
 * `adopt`, finds the agent of the platform that an object of the same name declared before.
 */
async function adoptAgent(
  deps: AdoptDeps,
  platform: LivePlatform,
  newcomer: Newcomer,
): Promise<AgentRow | undefined> {
  const { adopt, externalId } = newcomer;
  return deps.db.transaction(async (tx) => {
    await newcomer.check(tx);
    if (adopt === undefined) await requireNotReleased(tx, externalId);
    const found =
      adopt === undefined
        ? await leftBehind(tx, platform, newcomer)
        : await confirmed(tx, platform, { ...newcomer, adopt }, deps.clock.now());
    const [agent] = await tx("agents")
      .where({ agent_id: found?.agent_id ?? "" })
      .update({ external_id: externalId, object_name: newcomer.object.name })
      .returning("*");
    // The former object may have received this key without confirming it, so the new object gets another one.
    await tx("narrow_keys")
      .where({ agent_id: agent?.agent_id ?? "", made_with: BY_OPERATOR, ended_at: null })
      .update({ undelivered_sealed: null });
    return agent;
  });
}

/** Also finds agents that the platform's former cluster declared, because agents move with their platform. */
async function leftBehind(
  tx: Transaction,
  { connection_id }: LivePlatform,
  { object, agentType }: Newcomer,
): Promise<AgentRow | undefined> {
  return tx("agents")
    .where({ connection_id, object_name: object.name, agent_type: agentType })
    .whereNull("disabled_at")
    .forUpdate()
    .first();
}

async function confirmed(
  tx: Transaction,
  { account_id, connection_id }: LivePlatform,
  newcomer: Newcomer & { adopt: string },
  now: Date,
): Promise<AgentRow> {
  const adopted = { accountId: account_id, kind: "agent", id: newcomer.adopt } as const;
  const agent = await tx("agents")
    .where({ agent_id: newcomer.adopt, connection_id })
    .whereNull("disabled_at")
    .forUpdate()
    .first();
  if (agent === undefined) throw notConfirmed(adopted, newcomer);
  if (agent.external_id === newcomer.externalId) return agent;
  if (agent.agent_type !== newcomer.agentType) {
    throw new ApiError("external_conflict", `Agent ${newcomer.adopt} has another agent_type`);
  }
  if (agent.object_name !== newcomer.object.name) {
    await useConfirmation(tx, adopted, newcomer);
    await noteTakenOver(tx, agent.external_id, now);
  }
  return agent;
}
