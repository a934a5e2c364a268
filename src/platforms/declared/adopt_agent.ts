import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { notConfirmed, noteTakenOver, requireNotReleased, useConfirmation } from "../adoptions/adoption.ts";
import type { LivePlatform } from "../platform_record.ts";

type Deps = { db: Database; clock: Clock };

/** What an object that is not registered yet declares. */
type Newcomer = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  agentType: string;
  adopt?: string | undefined;
  /** Throws when the account no longer accepts the namespace; until the transaction ends it stays so. */
  check(tx: Transaction): Promise<void>;
};

/**
 * Gives an object that is not registered yet the agent that it names in `adopt`, as the owner has confirmed,
 * or the one of its platform that an object of its name had before; `undefined` without either. Throws what
 * `check` throws, `adoption_not_confirmed`, `external_conflict`.
 */
export async function adoptAgent(
  deps: Deps,
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
    return agent;
  });
}

/** Also in the cluster that the platform was in before: with it came its agents. */
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
