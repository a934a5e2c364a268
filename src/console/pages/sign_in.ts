import { type Html, html } from "../../html/html.ts";
import { keptField, sendAgain } from "../core/kept_forms.ts";
import { page, Redirect, type Visit } from "../core/page.ts";
import { ENTER_CODE, SIGN_IN, wayBack } from "../core/places.ts";
import { ADDRESS, textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";

/** The page on which people request a code. Its sign-in cookie separates the codes of different browsers. */
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
          autocomplete: "email",
          ...ADDRESS,
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

/** A person who is signing in. `kept` is a form that they can send after the sign-in. */
type Known = { email: string; kept: string };

/**
 * The page on which people enter their code. The link in an email opens this page with the code after `#`.
 */
export const enterCodePage = page<Known>({
  id: "enter_code",
  path: ENTER_CODE,
  access: "public",
  boundTo: "browser",
  operations: ["verify_code"],
  async load(visit) {
    if (visit.session !== undefined) throw new Redirect(visit.own(wayBack(visit.query.return_to)));
    return {
      email: visit.failure?.typed.get("email") ?? visit.query.email ?? "",
      kept: visit.failure?.typed.get("kept") ?? "",
    };
  },
  title: ({ texts }) => texts.code.title,
  render: codeContent,
  forms: {
    verify_code: {
      errorFields: { invalid_code: "code", rate_limited: "code" },
      faults: ({ signIn, code }) => ({ email: signIn.notAnAddress, code: code.notACode }),
      async submit(visit, fields) {
        const code = fields.get("code");
        const { onboarding_step } = await visit.call("verify_code", {
          body: { email: fields.get("email").trim(), code },
        });
        const kept = fields.get("kept");
        const isHeld = kept !== "" && onboarding_step === "complete";
        const again = isHeld ? sendAgain(await visit.renewed(), kept) : undefined;
        return again ?? { to: visit.own(wayBack(visit.query.return_to)) };
      },
    },
  },
});

function codeContent(visit: Visit, { email, kept }: Known): Html {
  const { texts, query } = visit;
  return html`<p class="lead">${email === "" ? texts.code.leadUnknown : texts.code.lead(email)}</p>
    ${form(visit, {
      name: "verify_code",
      content: html`${textField(visit, {
        form: "verify_code",
        name: "email",
        label: texts.signIn.email,
        value: email,
        attributes: { autocomplete: "email", ...ADDRESS },
      })}
      ${textField(visit, {
        form: "verify_code",
        name: "code",
        label: texts.code.code,
        hint: texts.code.codeHint,
        attributes: {
          autocomplete: "one-time-code",
          inputmode: "numeric",
          maxlength: 128,
          spellcheck: "false",
          autofocus: email !== "",
          "data-code": true,
        },
      })}${keptField(kept)}`,
      submit: texts.code.submit,
      beside: html` <a href=${visit.own(SIGN_IN, { return_to: query.return_to })}>${texts.code.again}</a>`,
    })}`;
}
