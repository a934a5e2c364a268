import { type Html, html, type Piece } from "../../../html/html.ts";
import { newId } from "../../../ids.ts";
import { WRITER } from "../../core/forms/kept_form.ts";
import { refusal } from "../../core/forms/refusal.ts";
import type { Visit } from "../../core/page.ts";

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
  const key = keyOf(visit, name) || newId();
  const unseen = {
    form: name,
    csrf: visit.formToken,
    [WRITER]: visit.session?.account_id,
    ...(once && { key }),
    ...hidden,
  };
  return html`<form method="post" action=${visit.here} id=${`form-${name}`} data-at-once=${atOnce}>
    ${Object.entries(unseen).map(
      ([field, value]) => value !== undefined && html`<input type="hidden" name=${field} value=${value} />`,
    )}
    ${refusal(visit, name)}
    ${content}
    <p class="actions"><button type="submit" class=${tone}>${submit}</button>${beside}</p>
  </form>`;
}

/** The idempotency key that a form was sent with, where it is still good for what is in it. */
function keyOf({ failure }: Visit, of: string): string {
  return failure?.form === of && failure.isSpent !== true ? failure.typed.get("key") : "";
}
