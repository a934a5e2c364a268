import { html } from "../../../html/html.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import type { Fields } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { onceOnly, shownOnce } from "../../elements/secrets.ts";
import { time } from "../../elements/values.ts";
import { removingNote } from "./platform.ts";

const FORM = "rotate";
const DAY = "86400";

/** The page that replaces a platform's signing secret and shows the new one once. */
export const signingSecretPage = page<PlatformAnswer>({
  id: "signing_secret",
  path: "/console/platforms/{platform_id}/signing-secret",
  operations: ["get_platform", "rotate_signing_secret"],
  load: ({ call, params }) => call("get_platform", { params }),
  title: ({ texts }) => texts.signingSecret.title,
  back: (visit, { name }) => ({ to: address(visit), text: name }),
  render(visit, { declared_by, state }) {
    const words = visit.texts.signingSecret;
    if (state === "removing") return removingNote(visit);
    return html`<p class="lead">${words.lead}</p>
      ${declared_by !== null && html`<p class="notice">${words.declared}</p>`}
      ${
        visit.may("rotate_signing_secret") &&
        form(visit, {
          name: FORM,
          once: true,
          content: selectField(visit, {
            form: FORM,
            name: "grace_seconds",
            label: words.grace,
            hint: words.graceHint,
            value: DAY,
            choices: visit.texts.webhookSecret.graces.map(([value, label]) => ({ value, label })),
          }),
          submit: words.submit,
        })
      }`;
  },
  forms: {
    [FORM]: {
      submit: (visit, fields) =>
        onceOnly(() => rotate(visit, fields), {
          title: visit.texts.signingSecret.onceTitle,
          explain: visit.texts.signingSecret.onceMade,
          links: [html`<a class="button" href=${address(visit)}>${visit.texts.signingSecret.back}</a>`],
        }),
    },
  },
});

function address({ at, params }: Visit): string {
  return at(`/platforms/${params.platform_id}`);
}

/** Replaces the secret and returns the only page that shows the new one. */
async function rotate(visit: Visit, fields: Fields): Promise<Outcome> {
  const { call, params, texts } = visit;
  const words = texts.signingSecret;
  const body = { grace_seconds: Number(fields.get("grace_seconds")) };
  const rotated = await call("rotate_signing_secret", { params, body, once: true });
  const { signing_secret, former_expires_at: until } = rotated;
  return {
    title: words.madeTitle,
    content: html`${shownOnce(texts, {
      id: "signing-secret",
      label: words.made,
      text: signing_secret,
      file: "signing-secret.txt",
    })}
      <p>${until === null ? words.formerEnded : html`${words.formerGood} ${time(until)}.`}</p>
      <p class="actions"><a class="button" href=${address(visit)}>${words.back}</a></p>`,
  };
}
