import { z } from "zod";
import { emailAddress } from "../accounts/email.ts";
import type { Database } from "../db/database.ts";
import type { OrganizationInvitationRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { memberRoles, type Route, route } from "../route.ts";
import { acceptInvitation, findInvitation } from "./accept_invitation.ts";
import { type InviteDeps, invite } from "./invite.ts";
import { requireOrganization } from "./members.ts";

const path = "/v1/service/organization/invitations";

const shown = z.object({
  invitation_id: z.string(),
  email: z.string(),
  role: z.enum(memberRoles),
  invited_by: z.string().describe("E-mail address of the owner who sent the invitation"),
  created_at: isoTime,
  expires_at: isoTime,
});

/** An invitation, as the API returns it to the organization. */
export type InvitationAnswer = z.infer<typeof shown>;

const read = shown
  .pick({ role: true, invited_by: true, expires_at: true })
  .extend({ organization_name: z.string() });
/** An invitation, as the API returns it to the invited person. */
export type ReadInvitationAnswer = z.infer<typeof read>;

/** Returns the operations that invite people and let them accept. */
export function invitationRoutes(deps: InviteDeps): Route[] {
  return [inviteRoute(deps), listRoute(deps), withdrawRoute(deps), readRoute(deps), acceptRoute(deps)];
}

function inviteRoute(deps: InviteDeps): Route {
  return route({
    id: "invite_organization_member",
    method: "POST",
    path: "/v1/service/organization/members",
    summary: "Invite a person by e-mail to an organization",
    access: "session",
    idempotent: true,
    body: z.object({ email: emailAddress, role: z.enum(memberRoles) }),
    activityDetails: ({ email, role }) => ({ email, role }),
    answer: { status: 201, schema: shown, description: "The invitation; its code is only in the mail" },
    errors: ["not_available", "already_member", "member_limit", "rate_limited"],
    async handle({ caller, body, ip }) {
      requireOrganization(caller);
      return { body: show({ ...(await invite(deps, caller, body, ip)), inviter: caller.person.email }) };
    },
  });
}

function listRoute({ db, clock }: InviteDeps): Route {
  return route({
    id: "list_invitations",
    method: "GET",
    path,
    summary: "List the invitations that are not yet accepted",
    access: "session",
    roles: ["auditor"],
    answer: {
      status: 200,
      schema: z.object({ invitations: z.array(shown) }),
      description: "Oldest first",
    },
    errors: ["not_available"],
    async handle({ caller }) {
      requireOrganization(caller);
      const rows = await db("organization_invitations as i")
        .join("accounts as a", "a.account_id", "i.invited_by")
        .where("i.organization_id", caller.accountId)
        .where("i.expires_at", ">", clock.now())
        .orderBy(["i.created_at", "i.invitation_id"])
        .select("i.*", "a.email as inviter");
      return { body: { invitations: rows.map(show) } };
    },
  });
}

function withdrawRoute({ db }: InviteDeps): Route {
  return route({
    id: "withdraw_invitation",
    method: "DELETE",
    path: `${path}/{invitation_id}`,
    summary: "Withdraw an invitation",
    access: "session",
    idempotent: true,
    params: z.object({ invitation_id: idText }),
    answer: {
      status: 200,
      schema: z.object({ invitation_id: z.string(), withdrawn: z.literal(true) }),
      description: "Nobody can accept it any more",
    },
    errors: ["not_available", "not_found"],
    async handle({ caller, params: { invitation_id } }) {
      requireOrganization(caller);
      const email = await withdraw(db, caller.accountId, invitation_id);
      return { body: { invitation_id, withdrawn: true as const }, activityDetails: { email } };
    },
  });
}

/** Withdraws an invitation and returns the invited address. */
async function withdraw(db: Database, organizationId: string, invitationId: string): Promise<string> {
  const own = { organization_id: organizationId, invitation_id: invitationId };
  if (!isUuid(invitationId)) throw new ApiError("not_found");
  const [withdrawn] = await db("organization_invitations").where(own).delete().returning("email");
  if (withdrawn === undefined) throw new ApiError("not_found");
  return withdrawn.email;
}

const token = z.string().max(200).describe("The code in the invitation's mail");

function readRoute(deps: InviteDeps): Route {
  return route({
    id: "read_invitation",
    method: "POST",
    path: `${path}/read`,
    summary: "Read an invitation by its code, with the account of the invited address; changes nothing",
    access: "session",
    roles: "person",
    idempotent: true,
    body: z.object({ token }),
    answer: {
      status: 200,
      schema: read,
      description: "The organization, the inviter and the role",
    },
    errors: ["invalid_invitation"],
    async handle({ caller, body }) {
      const { organization_name, ...row } = await findInvitation(deps, caller.person, body.token.trim());
      const { role, invited_by, expires_at } = show(row);
      return { body: { organization_name, role, invited_by, expires_at } };
    },
  });
}

function acceptRoute(deps: InviteDeps): Route {
  return route({
    id: "accept_invitation",
    method: "POST",
    path: `${path}/accept`,
    summary: "Become a member by the code of an invitation, with the account of the invited address",
    access: "session",
    roles: "person",
    idempotent: true,
    body: z.object({ token }),
    answer: {
      status: 200,
      schema: z.object({ account_id: z.string(), role: z.enum(memberRoles) }),
      description: "The organization for which the person may now act",
    },
    errors: ["invalid_invitation"],
    async handle({ caller, body }) {
      const { organization_id, role } = await acceptInvitation(deps, caller.person, body.token.trim());
      return { body: { account_id: organization_id, role } };
    },
  });
}

function show(row: OrganizationInvitationRow & { inviter: string }): InvitationAnswer {
  return {
    invitation_id: row.invitation_id,
    email: row.email,
    role: row.role,
    invited_by: row.inviter,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at.toISOString(),
  };
}
