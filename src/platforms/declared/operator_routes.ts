import { requireOwnObject } from "../../clusters/identify_operator.ts";
import { claimLeadershipRoute } from "../../clusters/leader_epochs.ts";
import type { AgentRow } from "../../db/tables.ts";
import { requireCustodial } from "../../input/platform_fields.ts";
import { type AgentAnswer, operatorCalls, type PlatformAnswer } from "../../operator_calls.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import { type Route, route } from "../../route.ts";
import { readAcceptance } from "../accepted_principal_routes.ts";
import { type CreateAgentDeps, deleteAgent } from "../agents/agents.ts";
import { type RetireDeps, rotateKey } from "../api_keys/rotate_key.ts";
import { removeConnection } from "../connections/connection_changes.ts";
import { countCustomers } from "../connections/customer_connections.ts";
import { showAgent } from "../platform_answers.ts";
import type { LivePlatform } from "../platform_record.ts";
import type { PlatformDeps } from "../routes.ts";
import { endAgentKey, putAgentKey } from "./agent_key.ts";
import { boundConnectionCheck } from "./bound_owner.ts";
import { findDeclaredAgent, putAgent } from "./declared_agent.ts";
import {
  acknowledgeCredentials,
  type DeclareDeps,
  findDeclaredPlatform,
  putPlatform,
  requireDeclaredPlatform,
  undeliveredCredentials,
} from "./declared_platform.ts";

/**
 * Returns the routes for the operator's leadership, platforms and agents, with the same rules as users'
 * calls.
 */
export function operatorPlatformRoutes(deps: PlatformDeps): Route[] {
  return [
    claimLeadershipRoute(deps),
    putPlatformRoute(deps),
    acknowledgeRoute(deps),
    rotateCredentialsRoute(deps),
    removePlatformRoute(deps),
    putAgentRoute(deps),
    removeAgentRoute(deps),
    putAgentKeyRoute(deps),
    removeAgentKeyRoute(deps),
  ];
}

type DeclaredPlatformDeps = DeclareDeps & RetireDeps;

function putPlatformRoute(deps: DeclaredPlatformDeps): Route {
  return route({
    id: "internal_put_platform",
    ...operatorCalls.putPlatform,
    summary: "Create or update a declared platform",
    access: "operator",
    errors: [
      "namespace_not_bound",
      "ceiling_exceeded",
      "invalid_scopes",
      "surface_not_available",
      "platform_limit",
      "ceiling_widened",
      "adoption_not_confirmed",
      "external_conflict",
      "invalid_callback_url",
      "invalid_redirect_uri",
      "invalid_principal",
      "principal_limit",
      "action_limited",
    ],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      const record = await putPlatform(deps, {
        externalId: params.external_id,
        clusterId: caller.clusterId,
        object: body.object,
        namespaceUid: body.namespace_uid,
        accountEmail: body.account_email,
        name: body.name,
        description: body.description ?? "",
        surfaceType: body.surface_type,
        allowedScopes: body.default_allowed_scopes,
        callbackUrl: body.callback_url,
        scopeDescriptions: body.scope_descriptions,
        explanationValues: body.explanation_values,
        redirectUris: body.redirect_uris,
        adopt: body.adopt,
        acceptedPrincipals: body.accepted_principals?.map(readAcceptance),
      });
      return { body: await showPlatformAnswer(deps, record) };
    },
  });
}

function acknowledgeRoute({ db }: DeclaredPlatformDeps): Route {
  return route({
    id: "internal_acknowledge_credentials",
    ...operatorCalls.acknowledgeCredentials,
    summary: "Confirm that a platform's credentials are stored",
    access: "operator",
    errors: ["not_found", "external_conflict"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      await acknowledgeCredentials(db, params.external_id, body.api_key_prefix);
      return { body: { acknowledged: true } };
    },
  });
}

function rotateCredentialsRoute(deps: DeclaredPlatformDeps): Route {
  return route({
    id: "internal_rotate_credentials",
    ...operatorCalls.rotateCredentials,
    summary: "Replace a platform's API key",
    access: "operator",
    errors: ["not_found", "namespace_not_bound", "action_limited"],
    async handle({ caller, params, body: { grace_seconds: graceSeconds = 0, request } = {} }) {
      requireOwnObject(caller, params.external_id);
      const platform = await requireDeclaredPlatform(deps.db, params.external_id);
      const { account_id: accountId, connection_id: connectionId, rotation_request } = platform;
      const check = boundConnectionCheck(connectionId, caller.clusterId);
      const isNew = request !== undefined && request !== rotation_request;
      await deps.actionLimits.within(isNew ? "requested_key" : "replace_key", [connectionId], () =>
        rotateKey(deps, { accountId, connectionId, graceSeconds, request, check }),
      );
      return {
        body: await showPlatformAnswer(deps, await requireDeclaredPlatform(deps.db, params.external_id)),
      };
    },
  });
}

/** This route also succeeds if the platform was never registered. */
function removePlatformRoute(deps: DeclaredPlatformDeps): Route {
  return route({
    id: "internal_remove_platform",
    ...operatorCalls.removePlatform,
    summary: "Remove a declared platform permanently",
    access: "operator",
    errors: ["namespace_not_bound"],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      const record = await findDeclaredPlatform(deps.db, params.external_id);
      if (record === undefined) return { body: { removed: true } };
      const { account_id: accountId, connection_id: connectionId } = record;
      const check = boundConnectionCheck(connectionId, caller.clusterId);
      const removedAt = await removeConnection(deps, { accountId, connectionId, check });
      return { body: { removed: removedAt !== null } };
    },
  });
}

async function showPlatformAnswer(deps: DeclaredPlatformDeps, record: LivePlatform): Promise<PlatformAnswer> {
  const { platform_id, connection_id, api_key_prefix, default_allowed_scopes, callback_url } = record;
  const { api_key_created_at, rotation_request, account_id: workspace_id, verifier_id } = record;
  const customers = (await countCustomers(deps.db, [platform_id])).get(platform_id) ?? 0;
  return {
    ...{ workspace_id, verifier_id, publish_state: record.publish_state, customers },
    ...{ platform_id, connection_id, api_key_prefix, default_allowed_scopes, callback_url, rotation_request },
    api_key_issued_at: api_key_created_at.toISOString(),
    credentials: await undeliveredCredentials(deps, record),
  };
}

type AgentDeps = CreateAgentDeps & RetireDeps & { actionLimits: ActionLimits };

function putAgentRoute(deps: AgentDeps): Route {
  return route({
    id: "internal_put_agent",
    ...operatorCalls.putAgent,
    summary: "Create or update a declared agent",
    access: "operator",
    errors: [
      "not_found",
      "namespace_not_bound",
      "not_available",
      "adoption_not_confirmed",
      "external_conflict",
      "action_limited",
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

/** This route also succeeds if the agent was never created. */
function removeAgentRoute(deps: AgentDeps): Route {
  return route({
    id: "internal_remove_agent",
    ...operatorCalls.removeAgent,
    summary: "Delete a declared agent permanently",
    access: "operator",
    errors: ["namespace_not_bound"],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      const agent = await findDeclaredAgent(deps.db, params.external_id);
      if (agent !== undefined && agent.disabled_at === null) {
        const check = boundConnectionCheck(agent.connection_id, caller.clusterId);
        await deleteAgent(deps, agent.connection_id, agent.agent_id, check);
      }
      return { body: { removed: true } };
    },
  });
}

function putAgentKeyRoute(deps: AgentDeps): Route {
  return route({
    id: "internal_put_agent_key",
    ...operatorCalls.putAgentKey,
    summary: "Get the key of an agent's object, or confirm that it is stored",
    access: "operator",
    errors: ["not_found", "agent_disabled", "namespace_not_bound", "action_limited"],
    async handle({ caller, params: { external_id: externalId }, body }) {
      requireOwnObject(caller, externalId);
      const { keep, grace_seconds: graceSeconds, request } = body;
      const wanted = { externalId, clusterId: caller.clusterId, keep, graceSeconds, request };
      return { body: await putAgentKey(deps, wanted) };
    },
  });
}

/** This route also succeeds if the object has no key. */
function removeAgentKeyRoute(deps: AgentDeps): Route {
  return route({
    id: "internal_remove_agent_key",
    ...operatorCalls.removeAgentKey,
    summary: "End the key of an agent's object",
    access: "operator",
    errors: [],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      await endAgentKey(deps, params.external_id);
      return { body: { removed: true } };
    },
  });
}

function showAgentAnswer(agent: AgentRow): AgentAnswer {
  const { agent_id, name, agent_type, custody_mode, public_key_json } = showAgent(agent);
  return { agent_id, name, agent_type, custody_mode, public_key_json, disabled: agent.disabled_at !== null };
}
