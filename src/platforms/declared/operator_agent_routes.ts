import type { Clock } from "../../clock.ts";
import type { AgentRow } from "../../db/tables.ts";
import { requireCustodial } from "../../input/platform_fields.ts";
import { type AgentAnswer, operatorCalls } from "../../operator_calls.ts";
import { type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { CreateAgentDeps } from "../agents/create_agent.ts";
import { deleteAgent } from "../agents/delete_agent.ts";
import { showAgent } from "../answers.ts";
import { requireBoundConnection } from "./bound_owner.ts";
import { findDeclaredAgent, putAgent } from "./declared_agent.ts";
import { requireOwnObject } from "./own_object.ts";

type Deps = CreateAgentDeps & { secretBox: SecretBox; clock: Clock };

/** `PUT /internal/v1/agents/{external_id}`. */
export function putAgentRoute(deps: Deps): Route {
  return route({
    id: "internal_put_agent",
    ...operatorCalls.putAgent,
    summary: "Make a declared agent true",
    access: "operator",
    errors: [
      "not_found",
      "namespace_not_bound",
      "not_available",
      "adoption_not_confirmed",
      "external_conflict",
      "vault_unavailable",
    ],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id, body.platform_external_id);
      requireCustodial(body);
      const agent = await putAgent(deps, {
        externalId: params.external_id,
        clusterId: caller.clusterId,
        object: body.object,
        platformExternalId: body.platform_external_id,
        name: body.name,
        agentType: body.agent_type,
        adopt: body.adopt,
      });
      return { body: showAgentAnswer(agent) };
    },
  });
}

/** `DELETE /internal/v1/agents/{external_id}`; of what was never created, nothing is left to remove. */
export function removeAgentRoute(deps: Deps): Route {
  return route({
    id: "internal_remove_agent",
    ...operatorCalls.removeAgent,
    summary: "Delete a declared agent, for ever",
    access: "operator",
    errors: ["namespace_not_bound"],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      const agent = await findDeclaredAgent(deps.db, params.external_id);
      if (agent !== undefined && agent.disabled_at === null) {
        await requireBoundConnection(deps.db, agent.connection_id, caller.clusterId);
        await deleteAgent(deps, agent.connection_id, agent.agent_id);
      }
      return { body: { removed: true } };
    },
  });
}

function showAgentAnswer(agent: AgentRow): AgentAnswer {
  const { agent_id, name, agent_type, custody_mode, public_key_json } = showAgent(agent);
  return { agent_id, name, agent_type, custody_mode, public_key_json, disabled: agent.disabled_at !== null };
}
