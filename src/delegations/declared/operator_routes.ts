import { requireOwnObject } from "../../clusters/identify_operator.ts";
import { readDeclared } from "../../input/declared_fields.ts";
import { operatorCalls } from "../../operator_calls.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import { type Route, route } from "../../route.ts";
import { readExpiry } from "../requested_end.ts";
import { type DecideDeps, decideInCluster } from "./decide_in_cluster.ts";
import { endDelegation, putDelegation } from "./declared_delegation.ts";
import { declaredStateRoute, liveDelegationsRoute, showState } from "./declared_state.ts";

type Deps = DecideDeps & { actionLimits: ActionLimits };

/** Returns the operator's routes for delegations, which follow the same rules as the routes for people. */
export function operatorDelegationRoutes(deps: Deps): Route[] {
  return [
    putDelegationRoute(deps),
    decideDelegationRoute(deps),
    endDelegationRoute(deps),
    declaredStateRoute(deps),
    liveDelegationsRoute(deps),
  ];
}

function putDelegationRoute(deps: Deps): Route {
  return route({
    id: "internal_put_delegation",
    ...operatorCalls.putDelegation,
    summary: "File the request that an object declares",
    access: "operator",
    errors: [
      "not_found",
      "namespace_not_bound",
      "agent_disabled",
      "invalid_scopes",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
      "request_limit",
      "external_conflict",
      "action_limited",
    ],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id, body.platform_external_id, body.agent_external_id);
      const filed = await putDelegation(deps, {
        externalId: params.external_id,
        clusterId: caller.clusterId,
        object: body.object,
        platformExternalId: body.platform_external_id,
        agentExternalId: body.agent_external_id,
        declared: readDeclared(body),
        scope: body.requested_scope,
        expiry: readExpiry(body),
        constraints: body.constraints ?? [],
        purpose: body.purpose ?? null,
      });
      return { body: showState(filed, deps.clock.now()) };
    },
  });
}

function decideDelegationRoute(deps: Deps): Route {
  return route({
    id: "internal_decide_delegation",
    ...operatorCalls.decideDelegation,
    summary:
      "Apply the decision on a declared delegation that a person made in its cluster, where it is read",
    access: "operator",
    errors: [
      "not_found",
      "not_available",
      "namespace_not_bound",
      "external_conflict",
      "approval_policy_missing",
      "approver_not_linked",
      "four_eyes_required",
      "scope_not_requested",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
      "vault_unavailable",
    ],
    async handle({ caller: { clusterId }, params: { external_id: externalId }, body: { object } }) {
      requireOwnObject({ clusterId }, externalId);
      const decided = await decideInCluster(deps, { externalId, clusterId, object });
      return { body: showState(decided, deps.clock.now()) };
    },
  });
}

function endDelegationRoute(deps: Deps): Route {
  return route({
    id: "internal_revoke_delegation",
    ...operatorCalls.revokeDelegation,
    summary: "End a declared delegation: withdraw its request, revoke its certificate",
    access: "operator",
    errors: ["not_found"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      const { reason = null, object_gone: isGone = false } = body ?? {};
      const ended = await endDelegation(deps, params.external_id, { reason, isGone });
      return { body: showState(ended, deps.clock.now()) };
    },
  });
}
