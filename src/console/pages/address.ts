import { UNDO_ADDRESS } from "../../accounts/address/address_mails.ts";
import { type Html, html } from "../../html/html.ts";
import { page, signedIn, type Visit } from "../core/page.ts";
import { ACCOUNT, SIGN_IN } from "../core/places.ts";
import { ADDRESS, textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { facts } from "../elements/values.ts";

/** The path of the page on which the signed-in person changes their address. */
export const CHANGE_ADDRESS = `${ACCOUNT}/address`;

/** The page on which the signed-in person changes their address. Its second form takes the codes. */
export const addressPage = page({
  id: "account_address",
  path: CHANGE_ADDRESS,
  about: "person",
  operations: ["send_address_codes", "change_address"],
  load: async () => undefined,
  title: ({ texts }) => texts.address.title,
  back: ({ own, texts }) => ({ to: own(ACCOUNT), text: texts.ownAccount.title }),
  render: (visit) =>
    visit.failure?.form === "change" ? codesForm(visit, visit.failure.typed.get("sent_to")) : askForm(visit),
  forms: {
    send_codes: {
      errorFields: { rate_limited: "email", action_limited: "email", unavailable: "email" },
      faults: ({ signIn }) => ({ email: signIn.notAnAddress }),
      async submit(visit, fields) {
        const email = fields.get("email").trim();
        // The page is the answer to the form, so a reload sends the form again.
        await visit.call("send_address_codes", { body: { email }, once: true });
        return { title: visit.texts.address.enterTitle, content: codesForm(visit, email) };
      },
    },
    change: {
      errorFields: { invalid_code: "new_address_code" },
      faults: ({ address }) => ({
        address_code: address.notACode,
        new_address_code: address.notACode,
      }),
      async submit(visit, fields) {
        const body = {
          address_code: fields.get("address_code"),
          new_address_code: fields.get("new_address_code"),
        };
        await visit.call("change_address", { body });
        return { to: visit.own(ACCOUNT), notice: "address_changed" };
      },
    },
  },
});

function askForm(visit: Visit): Html {
  const { address: words } = visit.texts;
  return html`<p class="lead">${words.lead}</p>
    <section class="card">${facts([[words.present, signedIn(visit).email]])}</section>
    ${form(visit, {
      name: "send_codes",
      once: true,
      content: textField(visit, {
        form: "send_codes",
        name: "email",
        label: words.newAddress,
        attributes: { autocomplete: "email", ...ADDRESS },
      }),
      submit: words.send,
    })}
    <p class="quiet">${words.effect}</p>`;
}

function codesForm(visit: Visit, email: string): Html {
  const { address: words } = visit.texts;
  const codeField = (name: string, label: string) =>
    textField(visit, {
      form: "change",
      name,
      label,
      hint: words.codeHint,
      attributes: { autocomplete: "off", inputmode: "numeric", maxlength: 128, spellcheck: "false" },
    });
  return html`<p class="lead">${words.enterLead(email)}</p>
    ${form(visit, {
      name: "change",
      hidden: { sent_to: email },
      content: html`${codeField("new_address_code", words.newCode)}${codeField("address_code", words.code)}`,
      submit: words.change,
      beside: html`<a href=${visit.own(CHANGE_ADDRESS)}>${words.again}</a>`,
    })}
    <p class="quiet">${words.effect}</p>`;
}

/** The page for the link in the mail to a former address. It needs no session. Opening it changes nothing. */
export const undoAddressPage = page({
  id: "undo_address",
  path: UNDO_ADDRESS,
  access: "public",
  operations: ["undo_address_change"],
  load: async () => undefined,
  title: ({ texts }) => texts.address.undoTitle,
  render(visit) {
    const { address: words } = visit.texts;
    return html`<p class="lead">${words.undoLead}</p>
      ${form(visit, {
        name: "undo",
        tone: "danger",
        content: textField(visit, {
          form: "undo",
          name: "token",
          label: words.undoCode,
          hint: words.undoCodeHint,
          attributes: { autocomplete: "off", maxlength: 200, spellcheck: "false", "data-code": 64 },
        }),
        submit: words.undo,
      })}`;
  },
  forms: {
    undo: {
      errorFields: { invalid_code: "token", address_taken: "token" },
      async submit({ call, own, texts: { address: words } }, fields) {
        const { email } = await call("undo_address_change", { body: { token: fields.get("token").trim() } });
        return {
          title: words.undoneTitle,
          content: html`<p class="lead">${words.undone(email)}</p>
            <p><a class="button" href=${own(SIGN_IN)}>${words.signIn}</a></p>`,
        };
      },
    },
  },
});
