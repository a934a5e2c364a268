import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { NarrowKeyRow } from "../../db/key_tables.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { AgentKeyAnswer } from "../../operator_calls.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import type { SecretBox } from "../../secret_box.ts";
import { BY_OPERATOR, undeliveredAgentKeyContext } from "../api_keys/api_key.ts";
import type { ApiKeyFinder } from "../api_keys/api_key_finder.ts";
import { addNarrowKey, noteEnded } from "../api_keys/narrow_keys.ts";
import { type CheckChange, findConnection, lockConnection } from "../platform_record.ts";
import { boundConnectionCheck } from "./bound_owner.ts";
import { findDeclaredAgent } from "./declared_agent.ts";

type Deps = { db: Database; secretBox: SecretBox; clock: Clock; apiKeys: Pick<ApiKeyFinder, "forget"> };

/**
 * `keep` is the prefix of the key in the object's Secret, unless this key must be replaced. A replaced key
 * stays valid for `graceSeconds`. `request` is the object's current request for a new key.
 */
type WantedKey = {
  externalId: string;
  clusterId: string;
  keep?: string | undefined;
  graceSeconds: number;
  request?: string | undefined;
};

/**
 * Returns the key of an agent's object. Creates it if there is none, or if the stored key is not the one to
 * keep. Returns the same key in each call until a call keeps it, so repeated calls and several operators get
 * one key. The limit of a connection's narrow keys does not count it.
 *
 * Throws `not_found` if the object declares no agent or its platform was removed, and `agent_disabled`. If
 * the call does not keep the key, also throws `action_limited` and `namespace_not_bound`.
 */
export async function putAgentKey(
  deps: Deps & { actionLimits: ActionLimits },
  wanted: WantedKey,
): Promise<AgentKeyAnswer> {
  const { request, keep } = wanted;
  const { agent, key } = await deps.db.transaction((tx) => keepKey(tx, wanted));
  if (key !== undefined && key.key_prefix === keep) return showKey(key, agent, null);
  const make = () => makeKey(deps, wanted, agent.connection_id);
  if (key !== undefined && key.undelivered_sealed !== null) return make();
  const isRequested = request !== undefined && request !== key?.rotation_request;
  const replaces = isRequested ? "requested_key" : "replace_key";
  return deps.actionLimits.within(key === undefined ? "create_agent" : replaces, [agent.agent_id], make);
}

type Present = { agent: AgentRow; key: NarrowKeyRow | undefined };

/** Returns the current key. If it is the one to keep, records that it is stored. */
async function keepKey(
  tx: Transaction,
  { externalId, keep }: WantedKey,
  check?: CheckChange,
): Promise<Present> {
  const agent = await lockAgent(tx, externalId, check);
  if (agent === undefined) throw new ApiError("not_found");
  if (agent.disabled_at !== null) throw new ApiError("agent_disabled");
  await findConnection(tx, agent.account_id, agent.connection_id);
  const key = await tx("narrow_keys").where(objectKeyOf(agent)).whereNull("retires_at").first();
  if (key !== undefined && key.key_prefix === keep && key.undelivered_sealed !== null) {
    await tx("narrow_keys").where({ key_prefix: keep }).update({ undelivered_sealed: null });
  }
  return { agent, key };
}

/** Locks the agent's connection, and the agent against a takeover by another object. Runs `check` between. */
async function lockAgent(
  tx: Transaction,
  externalId: string,
  check?: CheckChange,
): Promise<AgentRow | undefined> {
  const found = await findDeclaredAgent(tx, externalId);
  if (found === undefined) return undefined;
  await lockConnection(tx, found.connection_id);
  await check?.(tx);
  return tx("agents").where({ external_id: externalId }).forShare().first();
}

/** Returns the key that waits to be stored, or makes one. */
async function makeKey(deps: Deps, wanted: WantedKey, connection: string): Promise<AgentKeyAnswer> {
  const { db, secretBox, clock, apiKeys } = deps;
  const { clusterId, graceSeconds, request } = wanted;
  const { ended, made } = await db.transaction(async (tx) => {
    const check = boundConnectionCheck(connection, clusterId);
    const { agent, key: current } = await keepKey(tx, wanted, check);
    if (current !== undefined && current.undelivered_sealed !== null) {
      const context = undeliveredAgentKeyContext(current.key_prefix);
      return {
        ended: [],
        made: showKey(current, agent, secretBox.unbox(current.undelivered_sealed, context)),
      };
    }
    const { account_id: accountId, connection_id: connectionId, agent_id: agentId } = agent;
    const now = clock.now();
    const ended = await endObjectKeys(tx, secretBox, agent, { now, graceSeconds });
    const wish = { accountId, connectionId, role: "agent", agentId, madeWith: BY_OPERATOR } as const;
    const key = await addNarrowKey(tx, secretBox, wish, now);
    const { key_prefix, apiKey } = key;
    const kept = {
      undelivered_sealed: secretBox.box(apiKey, undeliveredAgentKeyContext(key_prefix)),
      rotation_request: request ?? null,
    };
    await tx("narrow_keys").where({ key_prefix }).update(kept);
    return { ended, made: showKey({ ...key, ...kept }, agent, apiKey) };
  });
  apiKeys.forget(ended);
  return made;
}

/** Ends the keys of an agent's object, if there are any. */
export async function endAgentKey(
  { db, secretBox, clock, apiKeys }: Deps,
  externalId: string,
): Promise<void> {
  const ended = await db.transaction(async (tx) => {
    const agent = await lockAgent(tx, externalId);
    return agent === undefined
      ? []
      : endObjectKeys(tx, secretBox, agent, { now: clock.now(), graceSeconds: 0 });
  });
  apiKeys.forget(ended);
}

/** Returns the prefixes of the keys whose end changed. */
async function endObjectKeys(
  tx: Transaction,
  secretBox: SecretBox,
  agent: AgentRow,
  { now, graceSeconds }: { now: Date; graceSeconds: number },
): Promise<string[]> {
  const end = addSeconds(now, graceSeconds);
  const ended = await tx("narrow_keys")
    .where(objectKeyOf(agent))
    .andWhere((key) => key.whereNull("retires_at").orWhere("retires_at", ">", end))
    .update({ undelivered_sealed: null, ...(graceSeconds === 0 ? { ended_at: now } : { retires_at: end }) })
    .returning("*");
  await noteEnded(tx, secretBox, ended, { end, endedWith: BY_OPERATOR, now });
  return ended.map(({ key_prefix }) => key_prefix);
}

function objectKeyOf({ connection_id, agent_id }: AgentRow) {
  return { connection_id, agent_id, made_with: BY_OPERATOR, ended_at: null };
}

function showKey(
  { key_prefix, created_at, rotation_request }: NarrowKeyRow,
  { agent_id, connection_id }: AgentRow,
  apiKey: string | null,
): AgentKeyAnswer {
  const stated = { api_key_issued_at: created_at.toISOString(), rotation_request, api_key: apiKey };
  return { agent_id, connection_id, api_key_prefix: key_prefix, ...stated };
}
