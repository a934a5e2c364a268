import { z } from "zod";
import type { Database } from "../db/database.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { memberRoles, type Route, route } from "../route.ts";
import { changeMember, listMembers, type Member, requireOrganization } from "./members.ts";
import { readSetups, type SetupsOf } from "./setups.ts";

const path = "/v1/service/organization/members";
const params = z.object({ account_id: idText });

const shown = z.object({
  account_id: z.string().describe("The member's own account"),
  email: z.string(),
  first_name: z.string().nullable(),
  last_name: z.string().nullable(),
  role: z.enum(memberRoles),
  joined_at: isoTime,
  setups: z.array(z.string()).describe("What ends when the member leaves"),
});
/** A member, as the API returns it. */
export type MemberAnswer = z.infer<typeof shown>;
const gone = z.object({ account_id: z.string(), member: z.literal(false) });

/** Returns the operations on an organization's members and their roles. */
export function memberRoutes({ db }: { db: Database }): Route[] {
  return [listRoute(db), changeRoute(db), removeRoute(db), leaveRoute(db)];
}

function listRoute(db: Database): Route {
  return route({
    id: "list_organization_members",
    method: "GET",
    path,
    summary: "List an organization's members",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: {
      status: 200,
      schema: z.object({ members: z.array(shown) }),
      description: "In the order of joining",
    },
    errors: ["not_available"],
    async handle({ caller }) {
      requireOrganization(caller);
      const members = await listMembers(db, caller.accountId);
      const setupsOf = await readSetups(db, caller.accountId);
      return { body: { members: members.map((member) => show(member, setupsOf)) } };
    },
  });
}

function changeRoute(db: Database): Route {
  return route({
    id: "change_organization_member",
    method: "PATCH",
    path: `${path}/{account_id}`,
    summary: "Give a member another role",
    access: "session",
    ends: true,
    idempotent: true,
    params,
    body: z.object({ role: z.enum(memberRoles) }),
    activityDetails: ({ role }) => ({ role }),
    answer: { status: 200, schema: shown, description: "The member; the role applies from their next call" },
    errors: ["not_available", "not_found", "last_owner"],
    async handle({ caller, params, body }) {
      requireOrganization(caller);
      const change = { accountId: params.account_id, role: body.role, by: caller.person.accountId };
      const member = await changeMember(db, caller.accountId, change);
      const setupsOf = await readSetups(db, caller.accountId);
      return { body: show(member, setupsOf), activityDetails: { email: member.email } };
    },
  });
}

function removeRoute(db: Database): Route {
  return route({
    id: "remove_organization_member",
    method: "DELETE",
    path: `${path}/{account_id}`,
    summary: "Remove a member; their past changes remain",
    access: "session",
    idempotent: true,
    params,
    answer: { status: 200, schema: gone, description: "The person can no longer act for the organization" },
    errors: ["not_available", "not_found", "last_owner"],
    async handle({ caller, params }) {
      requireOrganization(caller);
      const change = { accountId: params.account_id, role: null, by: caller.person.accountId };
      const { account_id, email } = await changeMember(db, caller.accountId, change);
      return { body: { account_id, member: false as const }, activityDetails: { email } };
    },
  });
}

function leaveRoute(db: Database): Route {
  return route({
    id: "leave_organization",
    method: "POST",
    path: "/v1/service/organization/leave",
    summary: "Leave the organization that the caller acts for",
    access: "session",
    ends: true,
    roles: ["approver", "developer", "auditor"],
    idempotent: true,
    answer: { status: 200, schema: gone, description: "The caller is no longer a member" },
    errors: ["not_available", "last_owner"],
    async handle({ caller }) {
      requireOrganization(caller);
      const own = caller.person.accountId;
      const { account_id } = await changeMember(db, caller.accountId, {
        accountId: own,
        role: null,
        by: own,
      });
      return { body: { account_id, member: false as const } };
    },
  });
}

function show({ joined_at, ...member }: Member, setupsOf: SetupsOf): MemberAnswer {
  return { ...member, joined_at: joined_at.toISOString(), setups: setupsOf(member) };
}
