import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { constraintList, expiryFields } from "../../input/delegation_fields.ts";
import { scopeList } from "../../input/platform_fields.ts";
import { idText } from "../../input/schemas.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { type Route, route } from "../../route.ts";
import { requestAnswer } from "../answers.ts";
import { readExpiry } from "../expiry.ts";
import { requestDelegation } from "./request_delegation.ts";

const body = z.object({
  connection_id: idText,
  agent_id: idText.optional().describe("May be left out when the connection has exactly one agent"),
  requested_scope: scopeList.optional().describe("The platform's whole ceiling when left out"),
  constraints: constraintList.optional(),
  ...expiryFields,
});

const answer = requestAnswer.pick({ request_id: true, status: true, agent_id: true, requested_scope: true });

/** `POST /v1/service/delegations/self-request`: a person asks for a delegation to an agent of their own. */
export function selfRequestRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "request_delegation",
    method: "POST",
    path: "/v1/service/delegations/self-request",
    summary: "Request a delegation to an agent of one's own",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    body,
    told: ({ connection_id }) => ({ connection_id }),
    answer: { status: 201, schema: answer, description: "A pending request" },
    errors: [
      "not_found",
      "no_agent",
      "agent_required",
      "agent_disabled",
      "invalid_scopes",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
    ],
    async handle({ caller, body }) {
      const owner = await findOwner(db, caller.accountId);
      const { request_id, status, agent_id, requested_scope } = await requestDelegation(
        { db, clock },
        owner,
        {
          connectionId: body.connection_id,
          agentId: body.agent_id,
          scope: body.requested_scope,
          expiry: readExpiry(body),
          constraints: body.constraints ?? [],
          requestedBy: caller.person.accountId,
          externalId: null,
        },
      );
      return {
        body: { request_id, status, agent_id, requested_scope },
        told: { request_id, agent_id },
      };
    },
  });
}
