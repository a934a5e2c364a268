import { html } from "../../../html/html.ts";
import { page } from "../../core/page.ts";
import { choiceField, textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { roleChoices } from "./role_choices.ts";

/** Where an owner invites somebody by mail. */
export const invitePage = page({
  id: "organization_invite",
  path: "/console/organization/invite",
  access: "onboarded",
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
        attributes: { type: "email", autocomplete: "off", maxlength: 254, spellcheck: "false" },
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
