import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { isRequestId } from "../../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { idText } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { requestAnswer, showRequest } from "../answers.ts";
import { callerRows } from "../caller_rows.ts";
import {
  expireRequests,
  findRequest,
  type RequestRecord,
  selectRequests,
  standingAt,
} from "./request_record.ts";

type Deps = { db: Database; clock: Clock };

const newestFirst: PageOrder = { time: "r.created_at", id: "r.request_id", isId: isRequestId };

const query = pageQuery.extend({
  status: requestAnswer.shape.status.optional(),
  connection_id: z.guid().optional(),
  agent_id: idText.optional(),
});

/** `GET /v1/service/delegations/requests`: the account's requests, newest first. */
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
      await expireRequests(db, caller.accountId, now);
      const found = selectRequests(db).where(callerRows(caller, "r"));
      if (query.status !== undefined) found.where({ "r.status": query.status });
      if (query.connection_id !== undefined) found.where({ "r.connection_id": query.connection_id });
      if (query.agent_id !== undefined) found.where({ "r.agent_id": query.agent_id });
      const { rows, next_cursor } = await readPage<RequestRecord>(found, newestFirst, query);
      return { body: { items: rows.map((row) => showRequest(standingAt(row, now))), next_cursor } };
    },
  });
}

/** `GET /v1/service/delegations/requests/{request_id}`. */
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
      await expireRequests(db, caller.accountId, now);
      return { body: showRequest(await findRequest(db, caller, params.request_id, now)) };
    },
  });
}
