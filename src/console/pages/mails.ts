import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { page, type Visit } from "../core/page.ts";
import { ACCOUNT } from "../core/places.ts";
import { choicesOf, selectField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";

/** The name of the form with which a person chooses their mails. */
export const MAIL_FORM = "mails";

type MailChoices = Awaited<ReturnType<typeof loadMails>>;
type MailKind = keyof MailChoices;
type MailChoice = MailChoices[MailKind];

/** Returns how often the signed-in person gets each kind of mail. */
export function loadMails({ call }: Visit) {
  return call("get_mail_choices");
}

/** Returns the form with which the signed-in person chooses their mails. */
export function mailForm(visit: Visit, chosen: MailChoices): Html {
  const { mails: words } = visit.texts;
  const kinds = Object.keys(words.kinds) as MailKind[];
  return html`<section class="card" id="mails"><h2>${words.title}</h2><p class="quiet">${words.lead}</p>
    ${form(visit, {
      name: MAIL_FORM,
      tone: "quiet",
      content: kinds.map((kind) =>
        selectField(visit, {
          form: MAIL_FORM,
          name: kind,
          label: words.kinds[kind],
          value: chosen[kind],
          choices: choicesOf(words.choices),
        }),
      ),
      submit: words.save,
    })}</section>`;
}

/** Returns the choices of a submitted form. The operation checks them. */
export function readMailForm({ texts }: Visit, fields: { get(name: string): string }) {
  const kinds = Object.keys(texts.mails.kinds) as MailKind[];
  return Object.fromEntries(kinds.map((kind) => [kind, fields.get(kind) as MailChoice]));
}

/** The page to which the link in each mail leads. It needs no session, and opening it changes nothing. */
export const stopMailsPage = page({
  id: "stop_mails",
  path: "/console/stop-mails",
  access: "public",
  operations: ["stop_mails"],
  load: async () => undefined,
  title: ({ texts }) => texts.mails.stopTitle,
  render: (visit) => html`<p class="lead">${visit.texts.mails.stopLead}</p>
    ${form(visit, { name: "stop", submit: visit.texts.mails.stop })}`,
  forms: {
    stop: {
      async submit({ call, query, texts: { mails: words }, own }) {
        const link = html`<p><a href=${own(ACCOUNT)}>${words.toAccount}</a></p>`;
        const answer = await call("stop_mails", { query: { token: query.token ?? "" } }).catch(unlessUnknown);
        if (answer === undefined) {
          return { title: words.unknownTitle, content: html`<p>${words.unknown}</p>${link}`, status: 404 };
        }
        return {
          title: words.stoppedTitle,
          content: html`<p class="lead">${words.stopped(words.kinds[answer.stopped])}</p>${link}`,
        };
      },
    },
  },
});

function unlessUnknown(error: unknown): undefined {
  if (error instanceof ApiError && (error.code === "not_found" || error.code === "invalid_request")) return;
  throw error;
}
