import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { isRequestId } from "../../ids.ts";
import { boundedConstraints, expiryFields, purposeText } from "../../input/delegation_fields.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { scopeList } from "../../input/platform_fields.ts";
import { idText } from "../../input/schemas.ts";
import { rootOf } from "../../input/url.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { findAgent } from "../../platforms/agents/agents.ts";
import { findPrincipalConnection, ownConnection } from "../../platforms/platform_record.ts";
import type { RequestRate } from "../../rates/request_rate.ts";
import { principalOf, type Route, route } from "../../route.ts";
import { requestAnswer, showRequest } from "../delegation_answers.ts";
import {
  callerRows,
  expireRequests,
  findRequest,
  type RequestRecord,
  selectRequests,
  stateAt,
} from "../delegation_records.ts";
import { readExpiry } from "../requested_end.ts";
import { createAskingRates, decisionPage, findSameRequest, refuseFourEyes } from "./agent_requests.ts";
import { requestDelegation } from "./request_delegation.ts";

const connectionParams = z.object({ connection_id: idText });
const asked = z.object({
  agent_id: idText.optional().describe("May be omitted if the connection has exactly one agent"),
  requested_scope: scopeList.optional().describe("The platform's whole ceiling if omitted"),
  constraints: boundedConstraints.optional(),
  purpose: purposeText.nullish().describe("Why the agent needs it, for the person who decides"),
  ...expiryFields,
});
const body = connectionParams.extend(asked.shape);

const answer = requestAnswer.pick({ request_id: true, status: true, agent_id: true, requested_scope: true });

const errors = [
  ...(["not_found", "no_agent", "agent_required", "agent_disabled", "invalid_scopes"] as const),
  ...(["ceiling_exceeded", "invalid_expiry", "invalid_constraints", "request_limit"] as const),
] as const;

const keyAnswer = answer.extend({ console: z.string().describe("The page on which a person decides") });

type Deps = { db: Database; clock: Clock };

/** `POST /v1/service/delegations/self-request`: a person requests a delegation to one of their own agents. */
export function selfRequestRoute({ db, clock, requestRate }: Deps & { requestRate: RequestRate }): Route {
  return route({
    id: "request_delegation",
    method: "POST",
    path: "/v1/service/delegations/self-request",
    summary: "Request a delegation to one of your own agents",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    body,
    activityDetails: ({ connection_id }) => ({ connection_id }),
    answer: { status: 201, schema: answer, description: "A pending request" },
    errors: [...errors],
    async handle({ caller, body }) {
      const owner = await findOwner(db, caller.accountId);
      const person = { accountId: caller.accountId, personId: caller.person.accountId };
      const { request_id, status, agent_id, requested_scope } = await requestRate.within(person, () =>
        requestDelegation({ db, clock }, owner, {
          ...readAsked(body),
          connectionId: body.connection_id,
          requestedBy: person.personId,
          isAlone: !caller.organization,
        }),
      );
      return {
        body: { request_id, status, agent_id, requested_scope },
        activityDetails: { request_id, agent_id },
      };
    },
  });
}

function readAsked(body: z.infer<typeof asked>) {
  const { agent_id: agentId, requested_scope: scope, constraints = [], purpose = null } = body;
  return { agentId, scope, constraints, purpose, expiry: readExpiry(body), externalId: null };
}

/** `POST …/connections/{connection_id}/delegation-requests`: an application asks for one of its agents. */
export function keyRequestRoute({ db, clock, baseUrl }: Deps & { baseUrl: string }): Route {
  const withinRates = createAskingRates(db);
  return route({
    id: "request_delegation_with_key",
    method: "POST",
    path: "/v1/service/connections/{connection_id}/delegation-requests",
    summary: "Request a delegation to an agent of the API key's connection",
    access: "api_key",
    idempotent: true,
    params: connectionParams,
    body: asked.extend({ agent_id: idText }),
    answer: { status: 201, schema: keyAnswer, description: "A pending request" },
    errors: [...errors, "forbidden", "denied_recently", "four_eyes_required", "rate_limited"],
    async handle({ caller, params, body }) {
      const connectionId = await ownConnection(db, caller, params.connection_id);
      const { agent_id: agentId } = await findAgent(db, connectionId, body.agent_id);
      const accountId = caller.principalAccountId;
      const file = async () => {
        await refuseFourEyes(db, connectionId);
        const owner = await findOwner(db, accountId);
        const asked = { refusal: null, action: null };
        return withinRates({ agentId, connectionId }, () =>
          requestDelegation({ db, clock }, owner, { ...readAsked(body), connectionId, asked }),
        );
      };
      const { allowed_scopes } = await findPrincipalConnection(db, accountId, connectionId);
      const { requested_scope: scopes = allowed_scopes, constraints = [] } = body;
      const sought = { agentId, scopes, constraints, action: null, byAgent: false };
      const row = (await findSameRequest(db, sought, clock.now())) ?? (await file());
      const { request_id, status, agent_id, requested_scope } = row;
      return {
        body: { request_id, status, agent_id, requested_scope, console: decisionPage(rootOf(baseUrl), row) },
      };
    },
  });
}

const newestFirst: PageOrder = { time: "r.created_at", id: "r.request_id", isId: isRequestId };

const query = pageQuery.extend({
  status: requestAnswer.shape.status.optional(),
  connection_id: z.guid().optional(),
  agent_id: idText.optional(),
});

/** `GET /v1/service/delegations/requests`: lists the account's requests, newest first. */
export function listRequestsRoute({ db, clock }: Deps): Route {
  return route({
    id: "list_delegation_requests",
    method: "GET",
    path: "/v1/service/delegations/requests",
    summary: "List delegation requests",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: pageOf(requestAnswer), description: "A page of requests, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const now = clock.now();
      await expireRequests(db, principalOf(caller), now);
      const found = selectRequests(db).where(callerRows(caller, "r"));
      if (query.status !== undefined) found.where({ "r.status": query.status });
      if (query.connection_id !== undefined) found.where({ "r.connection_id": query.connection_id });
      if (query.agent_id !== undefined) found.where({ "r.agent_id": query.agent_id });
      const { rows, next_cursor } = await readPage<RequestRecord>(found, newestFirst, query);
      return { body: { items: rows.map((row) => showRequest(stateAt(row, now), caller)), next_cursor } };
    },
  });
}

/** `GET /v1/service/delegations/requests/{request_id}`: returns a request. */
export function getRequestRoute({ db, clock }: Deps): Route {
  return route({
    id: "get_delegation_request",
    method: "GET",
    path: "/v1/service/delegations/requests/{request_id}",
    summary: "Read a delegation request",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ request_id: idText }),
    answer: { status: 200, schema: requestAnswer, description: "The request" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const now = clock.now();
      await expireRequests(db, principalOf(caller), now);
      return { body: showRequest(await findRequest(db, caller, params.request_id, now), caller) };
    },
  });
}
