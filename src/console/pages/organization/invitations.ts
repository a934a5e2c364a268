import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import { memberRoles } from "../../../route.ts";
import type { Answers } from "../../core/calls.ts";
import { page, refusal, type Visit } from "../../core/page.ts";
import { ACCEPT_INVITATION, ACCOUNT, addressFor } from "../../core/places.ts";
import { ADDRESS, type Choice, choiceField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { facts, time, titleWith } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";

/** The page on which an owner invites a person by email. */
export const invitePage = page({
  id: "organization_invite",
  path: "/console/organization/invite",
  about: "organization",
  operations: ["invite_organization_member", "get_organization"],
  load: ({ call }) => call("get_organization"),
  title: ({ texts }) => texts.organization.inviteTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit) {
    const { organization: words } = visit.texts;
    return html`<p class="lead">${words.inviteLead}</p>
    ${form(visit, {
      name: "invite",
      once: true,
      content: html`${textField(visit, {
        form: "invite",
        name: "email",
        label: words.inviteEmail,
        hint: words.inviteLimits,
        attributes: { autocomplete: "off", ...ADDRESS },
      })}
      ${choiceField(visit, {
        form: "invite",
        name: "role",
        label: words.role,
        value: "approver",
        choices: roleChoices(visit.texts),
      })}`,
      submit: words.send,
    })}`;
  },
  forms: {
    invite: {
      errorFields: {
        already_member: "email",
        member_limit: "email",
        rate_limited: "email",
        unavailable: "email",
      },
      faults: ({ signIn }) => ({ email: signIn.notAnAddress }),
      async submit({ call, at }, fields) {
        const body = { email: fields.get("email").trim(), role: fields.get("role") };
        await call("invite_organization_member", { body, once: true });
        return { to: at("/organization"), notice: "invited" };
      },
    },
  },
});

/** Returns the roles as choices, each with its permissions. */
export function roleChoices({ acting }: Texts): Choice[] {
  return memberRoles.map((role) => ({
    value: role,
    label: acting.roles[role],
    hint: acting.roleHints[role],
  }));
}

/** The page about a pending invitation, with the form that withdraws it. */
export const invitationPage = page<Answers["invite_organization_member"]>({
  id: "organization_invitation",
  path: "/console/organization/invitations/{invitation_id}",
  about: "organization",
  operations: ["withdraw_invitation", "list_invitations"],
  async load({ call, params }) {
    const { invitations } = await call("list_invitations");
    const found = invitations.find(({ invitation_id }) => invitation_id === params.invitation_id);
    if (found === undefined) throw new ApiError("not_found");
    return found;
  },
  title: ({ texts }) => texts.organization.withdrawTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { email, role, invited_by, expires_at }) {
    const { organization: words, acting } = visit.texts;
    return html`<section class="card">${facts([
      [words.invited, email],
      [words.role, acting.roles[role]],
      [words.invitedBy, invited_by],
      [words.ends, time(expires_at)],
    ])}</section>
    ${form(visit, {
      name: "withdraw",
      content: html`<p>${words.withdrawLead(email)}</p>`,
      submit: words.withdraw,
      tone: "danger",
    })}`;
  },
  forms: {
    withdraw: {
      async submit({ call, params, at }) {
        await call("withdraw_invitation", { params });
        return { to: at("/organization"), notice: "withdrawn" };
      },
    },
  },
});

const LENGTH = 64;

/** The page on which people accept an invitation with its code. The link in the email opens this page. */
export const acceptInvitationPage = page({
  id: "accept_invitation",
  path: ACCEPT_INVITATION,
  about: "person",
  operations: ["read_invitation", "accept_invitation"],
  load: async () => undefined,
  title: ({ texts }) => texts.invitation.title,
  render: (visit) => html`<p class="lead">${visit.texts.invitation.lead}</p>
    ${refusal(visit, "accept")}
    ${form(visit, {
      name: "look",
      content: textField(visit, {
        form: "look",
        name: "token",
        label: visit.texts.invitation.code,
        hint: visit.texts.invitation.codeHint,
        attributes: {
          autocomplete: "off",
          maxlength: 200,
          spellcheck: "false",
          autofocus: true,
          "data-code": LENGTH,
        },
      }),
      submit: visit.texts.invitation.look,
    })}`,
  forms: {
    look: {
      async submit(visit, fields) {
        const token = tidy(fields.get("token"));
        const invitation = await visit.call("read_invitation", { body: { token } });
        return {
          title: titleWith(visit.texts.invitation.foundTitle, invitation.organization_name),
          content: found(visit, invitation, token),
        };
      },
      errorFields: { invalid_invitation: "token" },
    },
    accept: {
      async submit(visit, fields) {
        const body = { token: tidy(fields.get("token")) };
        const { account_id, role } = await visit.call("accept_invitation", { body, once: true });
        const joined = { account_id, role, organization_name: "", credit: null, waiting: 0 };
        return { to: addressFor(joined, visit, "/organization"), notice: "joined" };
      },
    },
  },
});

function tidy(code: string): string {
  return code.replaceAll(/\s/g, "").toLowerCase();
}

function found(visit: Visit, invitation: Answers["read_invitation"], token: string): Html {
  const { invitation: words, acting } = visit.texts;
  const { role, invited_by, expires_at } = invitation;
  return html`<section class="card">${facts([
    [words.invitedBy, invited_by],
    [words.as, acting.roles[role]],
    [words.mayDo, acting.roleHints[role]],
    [words.ends, time(expires_at)],
  ])}</section>
  <p>${words.note}</p>
  ${form(visit, {
    name: "accept",
    once: true,
    hidden: { token },
    submit: words.accept,
    beside: html`<a href=${visit.own(ACCOUNT)}>${words.notNow}</a>`,
  })}`;
}
