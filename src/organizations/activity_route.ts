import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { OrganizationActivityRow } from "../db/tables.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { isoTime, isoTimeInput } from "../input/schemas.ts";
import { memberRoles, type Route, route } from "../route.ts";
import { requireOrganization } from "./require_organization.ts";

const entry = z.object({
  activity_id: z.string(),
  occurred_at: isoTime,
  actor: z
    .object({ account_id: z.string(), email: z.string(), role: z.enum(memberRoles) })
    .describe("Who called, as they were then"),
  operation: z.string().describe("The operation's id in this document"),
  target: z
    .record(z.string(), z.union([z.string(), z.boolean()]))
    .describe("What it was called about: the path's parameters, and a member's address and role"),
  status: z.enum(["begun", "done", "refused"]).describe("begun: what came of it is not known"),
  error_code: z.string().nullable().describe("Why it was refused"),
});

/** What one member did, as answers show it. */
export type ActivityEntry = z.infer<typeof entry>;

const activity = pageOf(entry).extend({
  actors: z
    .array(z.object({ account_id: z.string(), email: z.string() }))
    .describe("All who ever did something for the organization, by e-mail, whatever the filters"),
});

/** A page of what members did, as it is answered. */
export type ActivityAnswer = z.infer<typeof activity>;

const query = pageQuery.extend({
  account_id: z.guid().optional().describe("One member's"),
  operation: z.string().max(100).optional(),
  since: isoTimeInput.optional().describe("The first moment to show"),
  until: isoTimeInput.optional().describe("The moment before which to show"),
});

const newestFirst: PageOrder = { time: "v.occurred_at", id: "v.activity_id", isId: isUuid };

/** `GET /v1/service/organization/activity`: who called what for the organization, newest first. */
export function activityRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_organization_activity",
    method: "GET",
    path: "/v1/service/organization/activity",
    summary: "See which member changed what",
    access: "session",
    roles: ["auditor"],
    query,
    answer: { status: 200, schema: activity, description: "A page of acts, newest first" },
    errors: ["not_available"],
    async handle({ caller, query }) {
      requireOrganization(caller);
      const found = db("organization_activity as v").where({ "v.organization_id": caller.accountId });
      if (query.account_id !== undefined) found.where({ "v.actor_account_id": query.account_id });
      if (query.operation !== undefined) found.where({ "v.operation": query.operation });
      if (query.since !== undefined) found.where("v.occurred_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("v.occurred_at", "<", new Date(query.until));
      const { rows, next_cursor } = await readPage<OrganizationActivityRow>(
        found.select("v.*"),
        newestFirst,
        query,
      );
      const actors = await listActors(db, caller.accountId);
      return { body: { items: rows.map(show), next_cursor, actors } };
    },
  });
}

/** Who did something for an organization, each with their latest e-mail; a look at the index for each. */
async function listActors(db: Database, organizationId: string): Promise<ActivityAnswer["actors"]> {
  const { rows } = await db.raw<{ rows: ActivityAnswer["actors"] }>(
    `with recursive actors as (
       (select actor_account_id as account_id, actor_email as email from organization_activity
         where organization_id = :organizationId
         order by actor_account_id, occurred_at desc, activity_id desc limit 1)
       union all
       select next.* from actors, lateral (
         select actor_account_id, actor_email from organization_activity
         where organization_id = :organizationId and actor_account_id > actors.account_id
         order by actor_account_id, occurred_at desc, activity_id desc limit 1) as next)
     select account_id, email from actors order by email, account_id`,
    { organizationId },
  );
  return rows;
}

function show(row: OrganizationActivityRow): ActivityEntry {
  return {
    activity_id: row.activity_id,
    occurred_at: row.occurred_at.toISOString(),
    actor: { account_id: row.actor_account_id, email: row.actor_email, role: row.actor_role },
    operation: row.operation,
    target: row.target,
    status: row.status,
    error_code: row.error_code,
  };
}
