import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { AgentRow } from "../../db/tables.ts";
import { agentName, agentType, custodyFields, requireCustodial } from "../../input/platform_fields.ts";
import { type Route, route } from "../../route.ts";
import type { Seal } from "../../secret_box.ts";
import type { CreateAgentDeps } from "../agents/create_agent.ts";
import { deleteAgent } from "../agents/delete_agent.ts";
import { agentShape, showAgent } from "../answers.ts";
import { findDeclaredAgent, putAgent } from "./declared_agent.ts";
import { externalId, requireOwnObject } from "./own_object.ts";

type Deps = CreateAgentDeps & { seal: Seal; clock: Clock };

const path = "/internal/v1/agents/{external_id}";
const params = z.object({ external_id: externalId });

const state = agentShape
  .pick({ agent_id: true, name: true, agent_type: true, custody_mode: true, public_key_json: true })
  .extend({ disabled: z.boolean() });

/** `PUT /internal/v1/agents/{external_id}`. */
export function putAgentRoute(deps: Deps): Route {
  return route({
    id: "internal_put_agent",
    method: "PUT",
    path,
    summary: "Make a declared agent true",
    access: "operator",
    params,
    body: z.object({
      platform_external_id: externalId,
      name: agentName,
      agent_type: agentType,
      ...custodyFields,
    }),
    answer: { status: 200, schema: state, description: "The agent" },
    errors: ["not_found", "not_available", "external_conflict", "vault_unavailable"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id, body.platform_external_id);
      requireCustodial(body);
      const agent = await putAgent(deps, {
        externalId: params.external_id,
        platformExternalId: body.platform_external_id,
        name: body.name,
        agentType: body.agent_type,
      });
      return { body: showState(agent) };
    },
  });
}

/** `DELETE /internal/v1/agents/{external_id}`; of what was never created, nothing is left to remove. */
export function removeAgentRoute(deps: Deps): Route {
  return route({
    id: "internal_remove_agent",
    method: "DELETE",
    path,
    summary: "Delete a declared agent, for ever",
    access: "operator",
    params,
    answer: { status: 200, schema: z.object({ removed: z.literal(true) }), description: "Removed" },
    errors: [],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      const agent = await findDeclaredAgent(deps.db, params.external_id);
      if (agent !== undefined) await deleteAgent(deps, agent.connection_id, agent.agent_id);
      return { body: { removed: true } };
    },
  });
}

function showState(agent: AgentRow): z.infer<typeof state> {
  const { agent_id, name, agent_type, custody_mode, public_key_json } = showAgent(agent);
  return { agent_id, name, agent_type, custody_mode, public_key_json, disabled: agent.disabled_at !== null };
}
