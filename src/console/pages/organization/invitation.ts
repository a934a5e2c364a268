import { ApiError } from "../../../errors.ts";
import { html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page } from "../../core/page.ts";
import { facts } from "../../elements/facts.ts";
import { form } from "../../elements/forms/form.ts";
import { time } from "../../elements/time.ts";

/** An invitation that waits, to be withdrawn. */
export const invitationPage = page<Answers["invite_organization_member"]>({
  id: "organization_invitation",
  path: "/console/organization/invitations/{invitation_id}",
  access: "onboarded",
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
