import { type Html, html, type Piece } from "../../html/html.ts";
import { newId } from "../../ids.ts";
import { refusal } from "../core/answers.ts";
import type { Visit } from "../core/page.ts";

/** A form of this page. */
export type FormParts = {
  /** Its name among the page's `forms`. */
  name: string;
  /** What it asks for; fields are made by {@link textField} and its like. */
  content: Piece;
  /** What its button says. */
  submit: string;
  /** Beside the button. */
  beside?: Piece;
  /** How its button looks: `danger` for what cannot be taken back. */
  tone?: "primary" | "quiet" | "danger";
  /** Makes something: a second sending of the same page does it once. */
  once?: boolean;
  /** Goes with it unseen. */
  hidden?: Record<string, string | undefined>;
  /** Sent by itself where scripts run. */
  atOnce?: boolean;
};

/** A form that is sent to its own page, with the token of this visit. */
export function form(visit: Visit, parts: FormParts): Html {
  const {
    name,
    content,
    submit,
    beside,
    tone = "primary",
    once = false,
    hidden = {},
    atOnce = false,
  } = parts;
  const key = typed(visit, name, "key") || newId();
  const unseen = { form: name, csrf: visit.formToken, ...(once && { key }), ...hidden };
  return html`<form method="post" action=${visit.here} id=${`form-${name}`} data-at-once=${atOnce}>
    ${Object.entries(unseen).map(
      ([field, value]) => value !== undefined && html`<input type="hidden" name=${field} value=${value} />`,
    )}
    ${refusal(visit, name)}
    ${content}
    <p class="actions"><button type="submit" class=${tone}>${submit}</button>${beside}</p>
  </form>`;
}

/** A field of a form. */
export type Field = {
  form: string;
  name: string;
  label: string;
  /** A line below the label. */
  hint?: Piece;
  value?: string;
  required?: boolean;
  /** Attributes of the input, such as `autocomplete`. */
  attributes?: Record<string, string | number | boolean | undefined>;
};

/** A field for a line of text: what was typed is in it again, and what is wrong with it stands beside it. */
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

/** One of several choices, as radio buttons. */
export type Choice = { value: string; label: string; hint?: Piece };

type ChoiceField = Field & { choices: readonly Choice[] };

/** Choices of which one is taken. */
export function choiceField(visit: Visit, field: ChoiceField): Html {
  const { value } = stateOf(visit, field);
  return choices(visit, field, { type: "radio", required: true, isChosen: (choice) => choice === value });
}

/** Choices of which any are taken; all of them until the person has unticked some. */
export function boxField(visit: Visit, field: ChoiceField): Html {
  const failure = visit.failure?.form === field.form ? visit.failure : undefined;
  const chosen = failure?.typed.all(field.name);
  const isChosen = (choice: string) => chosen === undefined || chosen.includes(choice);
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

function stateOf(visit: Visit, { form: of, name, hint, value = "" }: Field) {
  const id = `${of}-${name}`;
  const failure = visit.failure?.form === of ? visit.failure : undefined;
  const fault = failure?.fields.get(name);
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ");
  return {
    id,
    fault,
    isWrong: fault !== undefined,
    value: failure === undefined ? value : failure.typed.get(name),
    described: described === "" ? undefined : described,
  };
}

function typed({ failure }: Visit, of: string, field: string): string {
  return failure?.form === of ? failure.typed.get(field) : "";
}
