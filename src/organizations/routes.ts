import { z } from "zod";
import { organizationName } from "../accounts/onboarding.ts";
import type { Database } from "../db/database.ts";
import { isoTime } from "../input/schemas.ts";
import { memberRoles, type Route, route, type SessionCaller } from "../route.ts";
import { type DeletionDeps, deletionRoutes } from "./account_deletion.ts";
import { activityRoute } from "./activity.ts";
import { type DomainDeps, domainRoutes } from "./domain_routes.ts";
import { invitationRoutes } from "./invitation_routes.ts";
import type { InviteDeps } from "./invite.ts";
import { memberRoutes } from "./member_routes.ts";
import { requireOrganization } from "./members.ts";
import { publishRoutes } from "./publishing.ts";
import { savedFilterRoutes } from "./saved_filters.ts";
import { endLapsedApprovals } from "./setups.ts";

/** Dependencies of the operations on organizations. */
export type OrganizationDeps = InviteDeps & DomainDeps & DeletionDeps;

/** Returns the operations on the organization that the caller acts for. */
export function organizationsRoutes(deps: OrganizationDeps): Route[] {
  return [
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...invitationRoutes(deps),
    ...domainRoutes(deps),
    ...publishRoutes(deps),
    activityRoute(deps),
    ...deletionRoutes(deps),
    ...savedFilterRoutes(deps),
  ];
}

const connecting = z.enum(["owners", "owners_and_approvers"]);

const change = z
  .object({ organization_name: organizationName, four_eyes: z.boolean(), connecting })
  .partial();

type Change = z.infer<typeof change>;

const shown = z.object({
  account_id: z.string(),
  organization_name: z.string(),
  role: z.enum(memberRoles).describe("The caller's role"),
  four_eyes: z.boolean().describe("Whether a person may not approve a delegation that they requested"),
  connecting,
  human_id: z.string().describe("Its root identity, which platforms of other accounts may accept"),
  created_at: isoTime,
});

/** An organization, as the API returns it. */
export type OrganizationAnswer = z.infer<typeof shown>;

const path = "/v1/service/organization";

function organizationRoutes({ db }: { db: Database }): Route[] {
  return [getRoute(db), changeRoute(db)];
}

function getRoute(db: Database): Route {
  return route({
    id: "get_organization",
    method: "GET",
    path,
    summary: "Read the organization that the caller acts for",
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
    summary: "Rename an organization, or change its rules",
    access: "session",
    idempotent: true,
    body: change.refine((body) => Object.keys(body).length > 0, "must have something to change"),
    activityDetails: changeOf,
    answer: { status: 200, schema: shown, description: "The changed organization" },
    errors: ["not_available"],
    async handle({ caller, body }) {
      requireOrganization(caller);
      const { accountId } = caller;
      await db.transaction(async (tx) => {
        await tx("accounts").where({ account_id: accountId }).update(changeOf(body));
        if (body.connecting !== undefined) await endLapsedApprovals(tx, accountId);
      });
      return { body: await show(db, caller) };
    },
  });
}

function changeOf({ organization_name, four_eyes, connecting }: Change) {
  return {
    ...(organization_name !== undefined && { organization_name }),
    ...(four_eyes !== undefined && { four_eyes }),
    ...(connecting !== undefined && { connecting }),
  };
}

async function show(db: Database, { accountId, person }: SessionCaller): Promise<OrganizationAnswer> {
  const row = await db("accounts").where({ account_id: accountId }).first();
  if (row?.organization_name == null || row.human_id === null || person.role === null) {
    throw new Error("The caller acts for an organization but has no role in it");
  }
  return {
    account_id: row.account_id,
    organization_name: row.organization_name,
    role: person.role,
    four_eyes: row.four_eyes,
    connecting: row.connecting,
    human_id: row.human_id,
    created_at: row.created_at.toISOString(),
  };
}
