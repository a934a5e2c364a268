import { type Html, html } from "../../../html/html.ts";
import { addressFor } from "../../core/acting.ts";
import type { Answers } from "../../core/calls.ts";
import { refusal } from "../../core/forms/refusal.ts";
import { page, type Visit } from "../../core/page.ts";
import { ACCEPT_INVITATION, ACCOUNT } from "../../core/places.ts";
import { facts } from "../../elements/facts.ts";
import { textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { time } from "../../elements/time.ts";

const LENGTH = 64;

/** Where people take an invitation's code: they see what it is, then accept. The mail's link leads here. */
export const acceptInvitationPage = page({
  id: "accept_invitation",
  path: ACCEPT_INVITATION,
  access: "onboarded",
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
          title: visit.texts.invitation.foundTitle(invitation.organization_name),
          content: found(visit, invitation, token),
        };
      },
      errorFields: { invalid_invitation: "token" },
    },
    accept: {
      async submit(visit, fields) {
        const body = { token: tidy(fields.get("token")) };
        const { account_id, role } = await visit.call("accept_invitation", { body, once: true });
        const joined = { account_id, role, organization_name: "", credit: null };
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
    content: undefined,
    submit: words.accept,
    beside: html`<a href=${visit.own(ACCOUNT)}>${words.notNow}</a>`,
  })}`;
}
