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
    answer: { status: 200, schema: pageOf(entry), description: "A page of acts, newest first" },
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
      return { body: { items: rows.map(show), next_cursor } };
    },
  });
}

function show(row: OrganizationActivityRow): z.infer<typeof entry> {
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
