import { type Html, html, type Piece } from "../../html/html.ts";
import { fieldsOf } from "../core/forms.ts";
import { faultBeside, type Visit } from "../core/page.ts";

/** A field of a form. */
export type Field = {
  form: string;
  name: string;
  label: Piece;
  /** A help text below the label. */
  hint?: Piece;
  value?: string;
  required?: boolean;
  /** Attributes of the input element, such as `autocomplete`. */
  attributes?: Record<string, string | number | boolean | undefined>;
};

/**
 * Attributes of a field for an email address. The field is a text field, because browsers refuse addresses
 * with letters outside ASCII before the `@` in a field for email addresses.
 */
export const ADDRESS = { inputmode: "email", autocapitalize: "none", maxlength: 254, spellcheck: "false" };

/** Returns a single-line text field. After a refusal, it shows the submitted text and the error. */
export function textField(visit: Visit, { attributes = {}, ...field }: Field): Html {
  const { id, value, described, isWrong } = stateOf(visit, field);
  const { type = "text", ...rest } = attributes;
  return html`<div class="field">
    ${labelled(visit, field)}
    <input id=${id} name=${field.name} type=${type} value=${value} required=${field.required ?? true} aria-invalid=${
      isWrong && "true"
    } aria-describedby=${described} autofocus=${isWrong} ...${rest as unknown as Piece} />
  </div>`;
}

/** Returns a multi-line text field. */
export function areaField(visit: Visit, { attributes = {}, ...field }: Field): Html {
  const { id, value, described, isWrong } = stateOf(visit, field);
  return html`<div class="field">
    ${labelled(visit, field)}
    <textarea id=${id} name=${field.name} rows="4" required=${field.required ?? true} aria-invalid=${
      isWrong && "true"
    } aria-describedby=${described} autofocus=${isWrong} ...${attributes as unknown as Piece}>${`\n${value}`}</textarea>
  </div>`;
}

/** Returns a checkbox that sends `on` when checked. */
export function checkField(visit: Visit, field: Omit<Field, "attributes">): Html {
  const { id, value, described, isWrong } = stateOf(visit, field);
  return html`<div class="field">${faultOf(visit, field)}<div class="choice">
    <input type="checkbox" id=${id} name=${field.name} value="on" checked=${value === "on"} required=${
      field.required ?? false
    } aria-invalid=${isWrong && "true"} aria-describedby=${described} />
    <label for=${id}>${field.label}${field.hint && html`<span class="hint" id=${`${id}-hint`}>${field.hint}</span>`}</label>
  </div></div>`;
}

/** One of several choices. */
export type Choice = { value: string; label: Piece; hint?: Piece };

export type ChoiceField = Field & { choices: readonly Choice[] };

/** Returns a field with radio buttons, one of which is selected. */
export function choiceField(visit: Visit, field: ChoiceField): Html {
  const { value } = stateOf(visit, field);
  return choices(visit, field, { type: "radio", required: true, isChosen: (choice) => choice === value });
}

/** Returns a drop-down list, one choice of which is selected. */
export function selectField(visit: Visit, field: ChoiceField): Html {
  const { id, value, described, isWrong } = stateOf(visit, field);
  return html`<div class="field">
    ${labelled(visit, field)}
    <select id=${id} name=${field.name} required=${field.required ?? true} aria-invalid=${
      isWrong && "true"
    } aria-describedby=${described}>${field.choices.map(
      (choice) =>
        html`<option value=${choice.value} selected=${choice.value === value}>${choice.label}</option>`,
    )}</select>
  </div>`;
}

/** Returns a field with checkboxes. Initially, the boxes are checked for which `isTicked` returns true. */
export function boxField(
  visit: Visit,
  { isTicked, ...field }: ChoiceField & { isTicked(value: string): boolean },
): Html {
  const failure = visit.failure?.form === field.form ? visit.failure : undefined;
  const chosen = failure?.typed.all(field.name);
  const isChosen = (choice: string) => chosen?.includes(choice) ?? isTicked(choice);
  return choices(visit, field, { type: "checkbox", required: false, isChosen });
}

type Boxes = { type: "radio" | "checkbox"; required: boolean; isChosen(value: string): boolean };

function choices(visit: Visit, field: ChoiceField, { type, required, isChosen }: Boxes): Html {
  const { id, described } = stateOf(visit, field);
  return html`<fieldset class="field choices" aria-describedby=${described}>
    <legend>${field.label}</legend>
    ${field.hint && html`<p class="hint" id=${`${id}-hint`}>${field.hint}</p>`}
    ${faultOf(visit, field)}
    ${field.choices.map(
      (choice, place) => html`<div class="choice">
        <input type=${type} id=${`${id}-${place}`} name=${field.name} value=${choice.value} checked=${isChosen(
          choice.value,
        )} required=${required} />
        <label for=${`${id}-${place}`}>${choice.label}${choice.hint && html`<span class="hint">${choice.hint}</span>`}</label>
      </div>`,
    )}
  </fieldset>`;
}

function labelled(visit: Visit, field: Field): Html {
  const { id } = stateOf(visit, field);
  return html`<label for=${id}>${field.label}</label>
    ${field.hint && html`<p class="hint" id=${`${id}-hint`}>${field.hint}</p>`}
    ${faultOf(visit, field)}`;
}

function faultOf(visit: Visit, field: Field): Html | undefined {
  const { id, fault } = stateOf(visit, field);
  return fault === undefined ? undefined : html`<p class="fault" id=${`${id}-fault`}>${fault}</p>`;
}

function stateOf(visit: Visit, field: Field) {
  const { form: of, name, hint, value = "" } = field;
  const id = `${of}-${name}`;
  const failure = visit.failure?.form === of ? visit.failure : undefined;
  const fault = faultBeside(visit, field);
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ");
  return {
    id,
    fault,
    isWrong: fault !== undefined,
    value: failure === undefined ? value : failure.typed.get(name),
    described: described === "" ? undefined : described,
  };
}

/** Returns a choice for each entry. `words` maps a choice's value to its label. */
export function choicesOf(words: Record<string, string>): Choice[] {
  return Object.entries(words).map(([value, label]) => ({ value, label }));
}

const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/;

/**
 * Returns a date and time field. Without scripts, the entered time is in UTC, as the label says. With
 * scripts, it is in the reader's time zone, the label says so, and the sent value includes the zone.
 */
export function momentField(visit: Visit, { label, value, ...field }: Field & { label: string }): Html {
  const { listing } = visit.texts;
  const failure = visit.failure?.form === field.form ? visit.failure : undefined;
  const typed = failure === undefined ? (value ?? "") : failure.typed.get(field.name);
  const read = readMoment(typed);
  const attributes = {
    type: "datetime-local",
    "data-moment": listing.inZone(label, "{zone}"),
    ...field.attributes,
  };
  return textField(shown(visit, field, read?.toISOString().slice(0, 16) ?? typed), {
    ...field,
    label: listing.inZone(label, "UTC"),
    value: read?.toISOString().slice(0, 16) ?? typed,
    attributes,
  });
}

/**
 * Parses a date and time field. The time is in UTC if it has no zone. Returns `undefined` if it is invalid.
 */
export function readMoment(text: string): Date | undefined {
  const date = new Date(LOCAL.test(text) ? `${text}Z` : text);
  return text === "" || Number.isNaN(date.getTime()) ? undefined : date;
}

/**
 * Returns the times from the page's query in the API's format. An invalid time becomes `undefined`, with an
 * error at its field.
 */
export function queryMoments(
  visit: Visit,
  { form, names }: { form: string; names: readonly string[] },
): Record<string, string | undefined> {
  const moments = names.map((name): [string, string | undefined] => {
    const text = visit.query[name] ?? "";
    const moment = readMoment(text);
    if (text !== "" && moment === undefined) sayWrong(visit, { form, name }, visit.texts.listing.noMoment);
    return [name, moment?.toISOString()];
  });
  return Object.fromEntries(moments);
}

/** Shows an error at a field whose value came from the page's query. */
export function sayWrong(visit: Visit, { form, name }: { form: string; name: string }, fault: string): void {
  const { failure, query, texts } = visit;
  const before = failure?.form === form ? failure.fields : [];
  const typed = fieldsOf(Object.entries(query).map(([each, value]) => [each, value ?? ""]));
  visit.failure = {
    form,
    message: texts.errors.lookBelow,
    fields: new Map([...before, [name, fault]]),
    typed,
    said: new Set(),
  };
}

/** Returns the visit as if `text` had been submitted in this field. */
function shown(visit: Visit, { form, name }: { form: string; name: string }, text: string): Visit {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form) return visit;
  const others = failure.typed.pairs().filter(([each]) => each !== name);
  return { ...visit, failure: { ...failure, typed: fieldsOf([...others, [name, text]]) } };
}
