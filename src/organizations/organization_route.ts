import { z } from "zod";
import type { Database } from "../db/database.ts";
import { isoTime } from "../input/schemas.ts";
import { memberRoles, type Route, route, type SessionCaller } from "../route.ts";
import { requireOrganization } from "./require_organization.ts";

const shown = z.object({
  account_id: z.string(),
  organization_name: z.string(),
  role: z.enum(memberRoles).describe("The caller's own"),
  four_eyes: z.boolean().describe("Whether who asked for a delegation may not approve it"),
  created_at: isoTime,
});

const path = "/v1/service/organization";

/** The organization that is acted for, and what it may set. */
export function organizationRoutes({ db }: { db: Database }): Route[] {
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
    summary: "Say whether who asked for a delegation may approve it",
    access: "session",
    idempotent: true,
    body: z.object({ four_eyes: z.boolean() }),
    told: ({ four_eyes }) => ({ four_eyes }),
    answer: { status: 200, schema: shown, description: "The organization as it is now" },
    errors: ["not_available"],
    async handle({ caller, body }) {
      requireOrganization(caller);
      await db("accounts").where({ account_id: caller.accountId }).update({ four_eyes: body.four_eyes });
      return { body: await show(db, caller) };
    },
  });
}

async function show(db: Database, { accountId, person }: SessionCaller): Promise<z.infer<typeof shown>> {
  const row = await db("accounts").where({ account_id: accountId }).first();
  if (row?.organization_name == null || person.role === null) {
    throw new Error("Who acts for an organization has a role in one");
  }
  return {
    account_id: row.account_id,
    organization_name: row.organization_name,
    role: person.role,
    four_eyes: row.four_eyes,
    created_at: row.created_at.toISOString(),
  };
}
