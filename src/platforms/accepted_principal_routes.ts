import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { AcceptedPrincipalRow } from "../db/tables.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { acceptanceBody, acceptedPrincipalList, PRINCIPAL_ID } from "../input/platform_fields.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { type Route, route, type SessionCaller } from "../route.ts";
import {
  type Acceptance,
  acceptPrincipal,
  endAcceptance,
  replaceAcceptedPrincipals,
} from "./accepted_principals.ts";
import { findPlatform } from "./platform_record.ts";

type Deps = { db: Database; clock: Clock };

const path = "/v1/service/platforms/{platform_id}/accepted-principals";
const params = z.object({ platform_id: idText });
const memberParams = params.extend({ human_id: idText });

const shown = z.object({
  human_id: z.string(),
  scopes: z.array(z.string()),
  accepted_until: isoTime.nullable(),
  created_at: isoTime,
});

/** An acceptance, as the API returns it. */
export type AcceptedPrincipalAnswer = z.infer<typeof shown>;

/** Returns the routes for root identities of other accounts whose authority a platform accepts. */
export function acceptedPrincipalRoutes(deps: Deps): Route[] {
  return [listRoute(deps), replaceRoute(deps), acceptRoute(deps), endRoute(deps)];
}

const newestFirst: PageOrder = {
  time: "created_at",
  id: "human_id",
  isId: (text) => PRINCIPAL_ID.test(text),
};

function listRoute({ db }: Deps): Route {
  return route({
    id: "list_accepted_principals",
    method: "GET",
    path,
    summary: "List the root identities of other accounts whose authority a platform accepts",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    query: pageQuery,
    answer: { status: 200, schema: pageOf(shown), description: "A page of principals, newest first" },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const { connection_id } = await findPlatform(db, caller.accountId, params.platform_id);
      const found = db("accepted_principals").select("*").where({ connection_id });
      const { rows, next_cursor } = await readPage<AcceptedPrincipalRow>(found, newestFirst, query);
      return { body: { items: rows.map(show), next_cursor } };
    },
  });
}

function replaceRoute(deps: Deps): Route {
  return route({
    id: "replace_accepted_principals",
    method: "PUT",
    path,
    summary: "Make these the only root identities of other accounts that a platform accepts",
    access: "session",
    ends: true,
    idempotent: true,
    params,
    body: z.object({ accepted_principals: acceptedPrincipalList }),
    answer: {
      status: 200,
      schema: z.object({ platform_id: z.string(), accepted: z.int() }),
      description: "Number of principals that are accepted now; one whose end has passed does not count",
    },
    errors: ["not_found", "invalid_scopes", "invalid_principal", "principal_limit"],
    async handle({ caller, params, body }) {
      const place = placeOf(caller, params);
      const acceptances = body.accepted_principals.map(readAcceptance);
      const accepted = await replaceAcceptedPrincipals(deps, place, acceptances);
      return { body: { platform_id: params.platform_id, accepted } };
    },
  });
}

function acceptRoute(deps: Deps): Route {
  return route({
    id: "accept_principal",
    method: "PUT",
    path: `${path}/{human_id}`,
    summary: "Accept a root identity of another account, or change what is accepted from it",
    access: "session",
    idempotent: true,
    params: memberParams,
    body: acceptanceBody,
    answer: { status: 200, schema: shown, description: "What is accepted from now on" },
    errors: ["not_found", "invalid_scopes", "invalid_expiry", "invalid_principal", "principal_limit"],
    async handle({ caller, params, body }) {
      const place = placeOf(caller, params);
      const acceptance = readAcceptance({ ...body, human_id: params.human_id });
      return { body: show(await acceptPrincipal(deps, place, acceptance)) };
    },
  });
}

function endRoute(deps: Deps): Route {
  return route({
    id: "end_accepted_principal",
    method: "DELETE",
    path: `${path}/{human_id}`,
    summary: "Stop accepting a root identity of another account",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params: memberParams,
    answer: {
      status: 200,
      schema: z.object({ human_id: z.string(), accepted: z.literal(false) }),
      description: "From now on, no decision allows on its authority",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const place = { accountId: caller.accountId, platformId: params.platform_id };
      await endAcceptance(deps, place, params.human_id);
      return { body: { human_id: params.human_id, accepted: false as const } };
    },
  });
}

function placeOf({ accountId, person }: SessionCaller, params: { platform_id: string }) {
  return { accountId, platformId: params.platform_id, by: person.accountId };
}

/** Converts an acceptance from its form in the API to the internal form. */
export function readAcceptance({
  human_id,
  scopes,
  accepted_until,
}: z.infer<typeof acceptedPrincipalList>[number]): Acceptance {
  return {
    humanId: human_id,
    scopes,
    acceptedUntil: accepted_until == null ? null : new Date(accepted_until),
  };
}

function show(row: AcceptedPrincipalRow): AcceptedPrincipalAnswer {
  return {
    human_id: row.human_id,
    scopes: row.scopes,
    accepted_until: row.accepted_until === null ? null : row.accepted_until.toISOString(),
    created_at: row.created_at.toISOString(),
  };
}
