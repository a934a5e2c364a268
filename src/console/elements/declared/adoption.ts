import { type Html, html } from "../../../html/html.ts";
import type { AdoptionAnswer } from "../../../platforms/adoptions/routes.ts";
import type { Fields } from "../../core/forms/fields.ts";
import type { Visit } from "../../core/page.ts";
import { facts } from "../facts.ts";
import { textField } from "../forms/fields.ts";
import { form } from "../forms/form.ts";
import { time } from "../time.ts";

const PLACE = ["cluster", "namespace", "name"] as const;

type Shown = { adoption: AdoptionAnswer["adoption"]; mayConfirm: boolean; mayWithdraw: boolean };

/** Which object may take something over, and the forms `confirm` and `withdraw`, as far as one may. */
export function adoptionForms(visit: Visit, { adoption, mayConfirm, mayWithdraw }: Shown): Html {
  const { adoption: words } = visit.texts;
  return html`${
    adoption === null
      ? html`<p class="quiet">${words.none}</p>`
      : html`<section class="card"><h2>${words.waiting}</h2>
          ${facts([
            ...PLACE.map((name): [string, string] => [words[name], adoption[name]]),
            [words.confirmedAt, time(adoption.confirmed_at)],
          ])}
          ${mayWithdraw && form(visit, { name: "withdraw", once: true, content: undefined, submit: words.withdraw, tone: "quiet" })}
        </section>`
  }
  ${mayConfirm ? confirming(visit) : html`<p class="quiet">${words.ownersOnly}</p>`}`;
}

/** The object that a form of {@link adoptionForms} names. */
export function placeIn(fields: Fields): Record<string, string> {
  return Object.fromEntries(PLACE.map((name) => [name, fields.get(name).trim()]));
}

function confirming(visit: Visit): Html {
  const { adoption: words } = visit.texts;
  const hints: Partial<Record<(typeof PLACE)[number], string>> = { cluster: words.clusterHint };
  return html`<section class="card"><h2>${words.confirm}</h2>${form(visit, {
    name: "confirm",
    once: true,
    content: PLACE.map((name) =>
      textField(visit, {
        form: "confirm",
        name,
        label: words[name],
        hint: hints[name],
        attributes: { autocomplete: "off", spellcheck: "false", maxlength: 253 },
      }),
    ),
    submit: words.confirm,
  })}</section>`;
}
