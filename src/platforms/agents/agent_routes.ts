import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { AgentRow } from "../../db/tables.ts";
import { isKeyId } from "../../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { agentName, agentType, custodyFields, requireCustodial } from "../../input/platform_fields.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import type { ApiKeyRates } from "../../rates/api_key_rates.ts";
import { type Route, route } from "../../route.ts";
import type { RetireDeps } from "../api_keys/rotate_key.ts";
import { agentAnswer, showAgent } from "../platform_answers.ts";
import { findConnection, ownConnection } from "../platform_record.ts";
import { type CreateAgentDeps, createAgent, deleteAgent, findAgent } from "./agents.ts";

type Deps = CreateAgentDeps & RetireDeps;

const newestFirst: PageOrder = { time: "created_at", id: "agent_id", isId: isKeyId };
const connectionParams = z.object({ connection_id: idText });
const agentParams = connectionParams.extend({ agent_id: idText });

const newAgent = z.object({ name: agentName, agent_type: agentType, ...custodyFields });
const created = { status: 201, schema: agentAnswer, description: "The agent" } as const;

/** `POST /v1/service/connections/{connection_id}/agents`: creates an agent whose key is in the vault. */
export function createAgentRoute(deps: Deps): Route {
  return route({
    id: "create_agent",
    method: "POST",
    path: "/v1/service/connections/{connection_id}/agents",
    summary: "Create an agent whose key the service keeps",
    access: "api_key",
    rate: "agents",
    idempotent: true,
    params: connectionParams,
    body: newAgent,
    answer: created,
    errors: ["not_found", "not_available", "vault_unavailable", "forbidden"],
    async handle({ caller, params, body, header }) {
      requireCustodial(body);
      const connectionId = await ownConnection(deps.db, caller, params.connection_id);
      const agent = await createAgent(deps, {
        ...notDeclared(body, header("idempotency-key")),
        accountId: caller.principalAccountId,
        connectionId,
      });
      return { body: showAgent(agent) };
    },
  });
}

/** `POST /v1/service/agents`: a person creates an agent of one of the account's connections. */
export function createAccountAgentRoute(deps: Deps & { keyRates: ApiKeyRates }): Route {
  return route({
    id: "create_account_agent",
    method: "POST",
    path: "/v1/service/agents",
    summary: "Create an agent of one of the account's connections",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    body: newAgent.extend({ connection_id: idText }),
    activityDetails: ({ connection_id }) => ({ connection_id }),
    answer: created,
    errors: ["not_found", "not_available", "vault_unavailable", "rate_limited"],
    async handle({ caller, body, header }) {
      requireCustodial(body);
      const { accountId } = caller;
      const { connection_id: connectionId } = await findConnection(deps.db, accountId, body.connection_id);
      // The agents of a connection have one limit, whoever creates them.
      const agent = await deps.keyRates.within("agents", { accountId, connectionId, isCustomer: false }, () =>
        createAgent(deps, { ...notDeclared(body, header("idempotency-key")), accountId, connectionId }),
      );
      return { body: showAgent(agent), activityDetails: { agent_id: agent.agent_id } };
    },
  });
}

/** Returns the parts of an agent that no Kubernetes object declares. */
function notDeclared({ name, agent_type: agentType }: z.infer<typeof newAgent>, key: string | undefined) {
  return { name, agentType, attemptKey: key ?? randomUUID(), externalId: null, objectName: null };
}

/** `GET …/connections/{connection_id}/agents`: lists the agents that are not deleted, newest first. */
export function listAgentsRoute({ db }: Deps): Route {
  return route({
    id: "list_agents",
    method: "GET",
    path: "/v1/service/connections/{connection_id}/agents",
    summary: "List a connection's agents",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: connectionParams,
    query: pageQuery,
    answer: { status: 200, schema: pageOf(agentAnswer), description: "A page of agents, newest first" },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const connectionId = await ownConnection(db, caller, params.connection_id);
      const found = db("agents").select("*").where({ connection_id: connectionId }).whereNull("disabled_at");
      const { rows, next_cursor } = await readPage<AgentRow>(found, newestFirst, query);
      return { body: { items: rows.map(showAgent), next_cursor } };
    },
  });
}

/**
 * `GET …/connections/{connection_id}/agents/{agent_id}`: returns an agent. If it is deleted, `disabled_at` is
 * the time.
 */
export function getAgentRoute({ db }: Deps): Route {
  return route({
    id: "get_agent",
    method: "GET",
    path: "/v1/service/connections/{connection_id}/agents/{agent_id}",
    summary: "Read an agent",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: agentParams,
    answer: { status: 200, schema: agentAnswer, description: "The agent" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const connectionId = await ownConnection(db, caller, params.connection_id);
      return { body: showAgent(await findAgent(db, connectionId, params.agent_id)) };
    },
  });
}

/** `DELETE /v1/service/connections/{connection_id}/agents/{agent_id}`: deletes an agent permanently. */
export function deleteAgentRoute(deps: Deps): Route {
  return route({
    id: "delete_agent",
    method: "DELETE",
    path: "/v1/service/connections/{connection_id}/agents/{agent_id}",
    summary: "Disable an agent's key permanently and revoke its certificates",
    access: "account",
    roles: ["developer"],
    idempotent: true,
    params: agentParams,
    answer: {
      status: 200,
      schema: z.object({ agent_id: z.string(), disabled_at: isoTime }),
      description: "When the agent was disabled; a repeated call returns the same time",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const connectionId = await ownConnection(deps.db, caller, params.connection_id);
      const disabledAt = await deleteAgent(deps, connectionId, params.agent_id);
      return { body: { agent_id: params.agent_id, disabled_at: disabledAt.toISOString() } };
    },
  });
}
