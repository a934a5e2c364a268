import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import type { FieldReader } from "../../elements/forms/field_reader.ts";
import { choicesOf, selectField, textField } from "../../elements/forms/fields.ts";

const MOST_SECONDS = 2_147_483_647;
const DAY = 86_400;

/** After how long a delegation ends, as a number and its unit. */
export function endFields(
  visit: Visit,
  { form, label, hint }: Record<"form" | "label" | "hint", string>,
): Html {
  const words = visit.texts.request;
  return html`<fieldset class="field" aria-describedby="end-hint"><legend>${label}</legend>
    <p class="hint" id="end-hint">${hint}</p>
    <div class="beside">${textField(visit, {
      form,
      name: "end_number",
      label: words.endNumber,
      required: false,
      attributes: { inputmode: "numeric", autocomplete: "off", maxlength: 10 },
    })}
    ${selectField(visit, {
      form,
      name: "end_unit",
      label: words.endUnit,
      value: "86400",
      choices: choicesOf(words.units),
    })}</div></fieldset>`;
}

/** The seconds that the fields are; nothing when the number is empty. What is wrong, the reader notes. */
export function readEnd({ texts }: Visit, reader: FieldReader): { expires_in?: number } {
  if (reader.optional("end_number") === "") return {};
  const expires_in = reader.whole("end_number") * reader.whole("end_unit");
  const { notPositive, tooLate } = texts.request;
  if (expires_in < 1) reader.fault("end_number", notPositive);
  if (expires_in > MOST_SECONDS) reader.fault("end_number", tooLate(Math.floor(MOST_SECONDS / DAY)));
  return { expires_in };
}
