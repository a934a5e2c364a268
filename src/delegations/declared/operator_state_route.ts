import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { operatorCalls, type StateAnswer } from "../../operator_calls.ts";
import { isOwnObject } from "../../platforms/declared/own_object.ts";
import { selectPlatforms } from "../../platforms/platform_record.ts";
import { type Route, route } from "../../route.ts";
import { findDeclaredDelegations, showState } from "./delegation_state.ts";

/**
 * `POST /internal/v1/state`: what is registered of up to 500 objects; those that nothing is known of are left
 * out.
 */
export function declaredStateRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "internal_read_state",
    ...operatorCalls.readState,
    summary: "Read the state of declared objects",
    access: "operator",
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

async function platformStates(db: Database, ids: string[]): Promise<StateAnswer["platforms"]> {
  const records = await selectPlatforms(db).whereIn("p.external_id", ids);
  return Object.fromEntries(
    records.map(({ external_id, platform_id, connection_id, api_key_prefix, removed_at }) => [
      external_id,
      { platform_id, connection_id, api_key_prefix, removed: removed_at !== null },
    ]),
  );
}

async function agentStates(db: Database, ids: string[]): Promise<StateAnswer["agents"]> {
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

async function delegationStates(db: Database, ids: string[], now: Date): Promise<StateAnswer["delegations"]> {
  const declared = await findDeclaredDelegations(db, ids);
  return Object.fromEntries(declared.map((each) => [each.external_id, showState(each, now)]));
}
