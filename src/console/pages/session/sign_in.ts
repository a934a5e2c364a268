import { html } from "../../../html/html.ts";
import { keptField } from "../../core/forms/kept_form.ts";
import { page, Redirect } from "../../core/page.ts";
import { ENTER_CODE, SIGN_IN, wayBack } from "../../core/places.ts";
import { textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { codeContent } from "./enter_code.ts";

/** Where people ask for a code. The browser sends its sign-in cookie there, which keeps codes apart. */
export const signInPage = page({
  id: "sign_in",
  path: SIGN_IN,
  access: "public",
  boundTo: "browser",
  operations: ["send_code"],
  async load(visit) {
    if (visit.session !== undefined) throw new Redirect(visit.own(wayBack(visit.query.return_to)));
    return { kept: visit.failure?.typed.get("kept") ?? "" };
  },
  title: ({ texts }) => texts.signIn.title,
  render: (visit, { kept }) => html`<p class="lead">${visit.texts.signIn.lead}</p>
    ${form(visit, {
      name: "send_code",
      content: html`${textField(visit, {
        form: "send_code",
        name: "email",
        label: visit.texts.signIn.email,
        hint: visit.texts.signIn.emailHint,
        attributes: {
          type: "email",
          autocomplete: "email",
          inputmode: "email",
          maxlength: 254,
          spellcheck: "false",
        },
      })}${keptField(kept)}`,
      submit: visit.texts.signIn.submit,
      beside: html` <a href=${visit.own(ENTER_CODE, { return_to: visit.query.return_to })}>${visit.texts.signIn.haveCode}</a>`,
    })}`,
  forms: {
    carry: { carries: true, submit: async (visit) => ({ to: visit.here }) },
    send_code: {
      errorFields: { rate_limited: "email" },
      faults: ({ signIn }) => ({ email: signIn.notAnAddress }),
      async submit(visit, fields) {
        const email = fields.get("email").trim();
        await visit.call("send_code", { body: { email } });
        const kept = fields.get("kept");
        const return_to = visit.query.return_to;
        if (kept === "") return { to: visit.own(ENTER_CODE, { email, return_to }), notice: "code_sent" };
        return {
          title: visit.texts.code.title,
          content: codeContent({ ...visit, here: visit.own(ENTER_CODE, { return_to }) }, { email, kept }),
        };
      },
    },
  },
});
