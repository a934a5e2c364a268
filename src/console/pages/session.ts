import { html } from "../../html/html.ts";
import { keptField, sendAgain } from "../core/kept_forms.ts";
import { page, Redirect } from "../core/page.ts";
import { RENEW, SIGN_IN, wayBack } from "../core/places.ts";
import { choiceField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";

/** The page that ends this session or all sessions. The button on other pages signs out immediately. */
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

/** The page that renews a session. Browsers send the refresh cookie only to this path and below it. */
export const renewPage = page({
  id: "renew",
  path: RENEW,
  access: "public",
  operations: ["refresh_session"],
  async load(visit) {
    const { query, own, cookie } = visit;
    const isRenewable = cookie("refresh") !== undefined && cookie("csrf") !== undefined;
    if (!isRenewable) throw new Redirect(own(SIGN_IN, { return_to: wayBack(query.return_to) }));
    return wayBack(query.return_to);
  },
  title: ({ texts }) => texts.renew.title,
  render: (visit, back) => html`<p class="lead">${visit.texts.renew.lead}</p>
    ${form(visit, {
      name: "renew",
      submit: visit.texts.renew.submit,
      hidden: { return_to: back },
      autoSubmit: visit.failure === undefined && visit.session === undefined,
    })}`,
  forms: {
    renew: {
      async submit(visit, fields) {
        const back = wayBack(fields.get("return_to"));
        const kept = fields.get("kept");
        const isRenewed = await visit.call("refresh_session").then(
          () => true,
          (error: { code?: string }) => {
            if (error.code !== "auth_required" && error.code !== "csrf_failed") throw error;
            return false;
          },
        );
        const held = kept === "" ? undefined : sendAgain(await visit.renewed(), kept);
        if (isRenewed) return held ?? { to: visit.own(back), notice: "renewed" };
        if (held !== undefined && visit.session !== undefined) return held;
        if (kept === "") return { to: visit.own(SIGN_IN, { return_to: back }) };
        return {
          title: visit.texts.kept.endedTitle,
          content: html`<p>${visit.texts.kept.ended}</p>
            <form method="post" action=${visit.own(SIGN_IN, { return_to: back })}>
              <input type="hidden" name="form" value="carry" />${keptField(kept)}
              <button type="submit">${visit.texts.signIn.title}</button>
            </form>`,
        };
      },
    },
  },
});
