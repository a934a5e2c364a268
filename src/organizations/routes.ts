import { z } from "zod";
import { displayName } from "../accounts/onboarding.ts";
import type { Database } from "../db/database.ts";
import { isoTime } from "../input/schemas.ts";
import { memberRoles, type Route, route, type SessionCaller } from "../route.ts";
import { activityRoute } from "./activity.ts";
import { type DomainDeps, domainRoutes } from "./domain_routes.ts";
import { invitationRoutes } from "./invitation_routes.ts";
import type { InviteDeps } from "./invite.ts";
import { memberRoutes } from "./member_routes.ts";
import { requireOrganization } from "./members.ts";
import { publishRoutes } from "./publishing.ts";

/** What the calls about organizations work with. */
export type OrganizationDeps = InviteDeps & DomainDeps;

/** The calls about the organization that is acted for. */
export function organizationsRoutes(deps: OrganizationDeps): Route[] {
  return [
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...invitationRoutes(deps),
    ...domainRoutes(deps),
    ...publishRoutes(deps),
    activityRoute(deps),
  ];
}

const shown = z.object({
  account_id: z.string(),
  organization_name: z.string(),
  role: z.enum(memberRoles).describe("The caller's own"),
  four_eyes: z.boolean().describe("Whether who asked for a delegation may not approve it"),
  human_id: z.string().describe("Its root identity, which other accounts' platforms may accept"),
  created_at: isoTime,
});

/** What it answers. */
export type OrganizationAnswer = z.infer<typeof shown>;

const path = "/v1/service/organization";

/** The organization that is acted for, and what it may set. */
function organizationRoutes({ db }: { db: Database }): Route[] {
  return [getRoute(db), changeRoute(db)];
}

function getRoute(db: Database): Route {
  return route({
    id: "get_organization",
    method: "GET",
    path,
    summary: "Read the organization that is acted for",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: { status: 200, schema: shown, description: "The organization" },
    errors: ["not_available"],
    async handle({ caller }) {
      requireOrganization(caller);
      return { body: await show(db, caller) };
    },
  });
}

function changeRoute(db: Database): Route {
  return route({
    id: "change_organization",
    method: "PATCH",
    path,
    summary: "Rename an organization, or say whether who asked for a delegation may approve it",
    access: "session",
    idempotent: true,
    body: z
      .object({ organization_name: displayName(200), four_eyes: z.boolean() })
      .partial()
      .refine((change) => Object.keys(change).length > 0, "must have something to change"),
    told: changeOf,
    answer: { status: 200, schema: shown, description: "The organization as it is now" },
    errors: ["not_available"],
    async handle({ caller, body }) {
      requireOrganization(caller);
      await db("accounts").where({ account_id: caller.accountId }).update(changeOf(body));
      return { body: await show(db, caller) };
    },
  });
}

type Change = { organization_name?: string | undefined; four_eyes?: boolean | undefined };

/** What is changed, without the rest. */
function changeOf({ organization_name, four_eyes }: Change) {
  return {
    ...(organization_name !== undefined && { organization_name }),
    ...(four_eyes !== undefined && { four_eyes }),
  };
}

async function show(db: Database, { accountId, person }: SessionCaller): Promise<OrganizationAnswer> {
  const row = await db("accounts").where({ account_id: accountId }).first();
  if (row?.organization_name == null || row.human_id === null || person.role === null) {
    throw new Error("Who acts for an organization has a role in one");
  }
  return {
    account_id: row.account_id,
    organization_name: row.organization_name,
    role: person.role,
    four_eyes: row.four_eyes,
    human_id: row.human_id,
    created_at: row.created_at.toISOString(),
  };
}
