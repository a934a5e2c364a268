import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/connection.ts";
import { externalId, isOwnObject } from "../../platforms/declared/own_object.ts";
import { selectPlatforms } from "../../platforms/platform_record.ts";
import { type Route, route } from "../../route.ts";
import { delegationState, findDeclaredDelegations, showState } from "./delegation_state.ts";

const MOST_IDS = 500;

const platformState = z.object({
  platform_id: z.string(),
  connection_id: z.string(),
  api_key_prefix: z.string().nullable(),
  removed: z.boolean(),
});
const agentState = z.object({ agent_id: z.string(), disabled: z.boolean() });

const answer = z.object({
  platforms: z.record(z.string(), platformState),
  agents: z.record(z.string(), agentState),
  delegations: z.record(z.string(), delegationState),
});

/**
 * `POST /internal/v1/state`: what is registered of up to 500 objects; those that nothing is known of are left
 * out.
 */
export function declaredStateRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "internal_read_state",
    method: "POST",
    path: "/internal/v1/state",
    summary: "Read the state of declared objects",
    access: "operator",
    body: z.object({ external_ids: z.array(externalId).max(MOST_IDS) }),
    answer: { status: 200, schema: answer, description: "The states by external id" },
    errors: [],
    async handle({ caller, body }) {
      const own = body.external_ids.filter((id) => isOwnObject(caller, id));
      const [platforms, agents, delegations] = await Promise.all([
        platformStates(db, own),
        agentStates(db, own),
        delegationStates(db, own, clock.now()),
      ]);
      return { body: { platforms, agents, delegations } };
    },
  });
}

async function platformStates(db: Database, ids: string[]): Promise<z.infer<typeof answer>["platforms"]> {
  const records = await selectPlatforms(db).whereIn("p.external_id", ids);
  return Object.fromEntries(
    records.map(({ external_id, platform_id, connection_id, api_key_prefix, removed_at }) => [
      external_id,
      { platform_id, connection_id, api_key_prefix, removed: removed_at !== null },
    ]),
  );
}

async function agentStates(db: Database, ids: string[]): Promise<z.infer<typeof answer>["agents"]> {
  const rows = await db("agents")
    .whereIn("external_id", ids)
    .select("external_id", "agent_id", "disabled_at");
  return Object.fromEntries(
    rows.map(({ external_id, agent_id, disabled_at }) => [
      external_id,
      { agent_id, disabled: disabled_at !== null },
    ]),
  );
}

async function delegationStates(
  db: Database,
  ids: string[],
  now: Date,
): Promise<z.infer<typeof answer>["delegations"]> {
  const declared = await findDeclaredDelegations(db, ids);
  return Object.fromEntries(declared.map((each) => [each.external_id, showState(each, now)]));
}
