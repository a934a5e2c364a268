import { html } from "../../../html/html.ts";
import { page } from "../../core/page.ts";
import { SIGN_IN } from "../../core/places.ts";
import { choiceField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";

/** Where people sign out: at once by the button of every page, here or everywhere by this page's own. */
export const signOutPage = page({
  id: "sign_out",
  path: "/console/sign-out",
  access: "signed_in",
  operations: ["logout"],
  load: async () => undefined,
  title: ({ texts }) => texts.signOut.title,
  render(visit) {
    const { signOut } = visit.texts;
    return html`<p class="lead">${signOut.lead}</p>
      ${form(visit, {
        name: "sign_out",
        content: choiceField(visit, {
          form: "sign_out",
          name: "where",
          label: signOut.where,
          value: "here",
          choices: [
            { value: "here", label: signOut.here },
            { value: "everywhere", label: signOut.everywhere },
          ],
        }),
        submit: signOut.button,
      })}`;
  },
  forms: {
    sign_out: {
      async submit(visit, fields) {
        await visit.call("logout", { body: { everywhere: fields.get("where") === "everywhere" } });
        return { to: visit.own(SIGN_IN), notice: "signed_out" };
      },
    },
  },
});
