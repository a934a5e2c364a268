import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/connection.ts";
import { constraintList, expiryFields, reasonBody } from "../../input/delegation_fields.ts";
import { scopeList } from "../../input/platform_fields.ts";
import { externalId, requireOwnObject } from "../../platforms/declared/own_object.ts";
import { type Route, route } from "../../route.ts";
import type { Seal } from "../../secret_box.ts";
import { readExpiry } from "../expiry.ts";
import { endDelegation, putDelegation } from "./declared_delegation.ts";
import { delegationState, showState } from "./delegation_state.ts";
import { declaredStateRoute } from "./operator_state_route.ts";

type Deps = { db: Database; seal: Seal; clock: Clock };

const path = "/internal/v1/delegations/{external_id}";
const params = z.object({ external_id: externalId });

/** The operator's calls about delegations. They keep the rules of the calls that people make. */
export function internalDelegationRoutes(deps: Deps): Route[] {
  return [putDelegationRoute(deps), endDelegationRoute(deps), declaredStateRoute(deps)];
}

/** `PUT /internal/v1/delegations/{external_id}`. */
function putDelegationRoute(deps: Deps): Route {
  return route({
    id: "internal_put_delegation",
    method: "PUT",
    path,
    summary: "File the request that an object declares",
    access: "operator",
    params,
    body: z.object({
      platform_external_id: externalId,
      agent_external_id: externalId,
      requested_scope: scopeList,
      constraints: constraintList.optional(),
      ...expiryFields,
    }),
    answer: { status: 200, schema: delegationState, description: "The delegation" },
    errors: [
      "not_found",
      "agent_disabled",
      "invalid_scopes",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
      "external_conflict",
    ],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id, body.platform_external_id, body.agent_external_id);
      const filed = await putDelegation(deps, {
        externalId: params.external_id,
        platformExternalId: body.platform_external_id,
        agentExternalId: body.agent_external_id,
        scope: body.requested_scope,
        expiry: readExpiry(body),
        constraints: body.constraints ?? [],
      });
      return { body: showState(filed, deps.clock.now()) };
    },
  });
}

/** `POST /internal/v1/delegations/{external_id}/revoke`. */
function endDelegationRoute(deps: Deps): Route {
  return route({
    id: "internal_revoke_delegation",
    method: "POST",
    path: `${path}/revoke`,
    summary: "End a declared delegation: withdraw its request, revoke its certificate",
    access: "operator",
    params,
    body: reasonBody,
    answer: { status: 200, schema: delegationState, description: "The delegation" },
    errors: ["not_found"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      const ended = await endDelegation(deps, params.external_id, body?.reason ?? null);
      return { body: showState(ended, deps.clock.now()) };
    },
  });
}
