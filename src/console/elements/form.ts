import { ApiError } from "../../errors.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import { newId } from "../../ids.ts";
import type { Fields } from "../core/forms.ts";
import { WRITER } from "../core/kept_forms.ts";
import { refusal, type Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";

/** A form of this page. */
export type FormParts = {
  /** Its name among the page's `forms`. */
  name: string;
  /** The content of the form; functions such as {@link textField} create the fields. */
  content?: Piece;
  /** The label of its button. */
  submit: string;
  /** Content beside the button. */
  beside?: Piece;
  /** The look of its button: `danger` for actions that cannot be undone. */
  tone?: "primary" | "quiet" | "danger";
  /** Creates something. Submitting the same form twice creates it once. */
  once?: boolean;
  /** Hidden fields. */
  hidden?: Record<string, string | undefined>;
  /** Submitted automatically where scripts run. */
  autoSubmit?: boolean;
};

/** Returns a form that is sent to its own page, with the token of this visit. */
export function form(visit: Visit, parts: FormParts): Html {
  const {
    name,
    content,
    submit,
    beside,
    tone = "primary",
    once = false,
    hidden = {},
    autoSubmit = false,
  } = parts;
  const key = keyOf(visit, name) || newId();
  const unseen = {
    form: name,
    csrf: visit.formToken,
    [WRITER]: visit.session?.account_id,
    ...(once && { key }),
    ...hidden,
  };
  return html`<form method="post" action=${visit.here} id=${`form-${name}`} data-at-once=${autoSubmit}>
    ${Object.entries(unseen).map(
      ([field, value]) => value !== undefined && html`<input type="hidden" name=${field} value=${value} />`,
    )}
    ${refusal(visit, name)}
    ${content}
    <p class="actions"><button type="submit" class=${tone}>${submit}</button>${beside}</p>
  </form>`;
}

/** Returns the idempotency key that the form was submitted with, if it is still valid for these fields. */
function keyOf({ failure }: Visit, of: string): string {
  return failure?.form === of && failure.isSpent !== true ? failure.typed.get("key") : "";
}

/** Reads fields, and collects their errors. */
export type FieldReader = {
  /** Returns a required text. */
  text(name: string): string;
  optional(name: string): string;
  /**
   * Returns a number with a point or a comma before its fraction. It is an error if the text has two
   * readings, neither of them above `most`.
   */
  number(name: string, most?: number): number;
  whole(name: string): number;
  /** Adds an error to a field. */
  fault(name: string, message: string): void;
  /** Throws `invalid_request` if there is an error, with the fields named as in the API's own errors. */
  check(): void;
};

/** Creates a reader of a form's fields. */
export function readerOf({ request }: Texts, fields: Fields): FieldReader {
  const faults = new Map<string, string>();
  const fault = (name: string, message: string) => {
    if (!faults.has(name)) faults.set(name, message);
  };
  const optional = (name: string) => fields.get(name).trim();
  const text = (name: string) => {
    if (optional(name) === "") fault(name, request.missing);
    return optional(name);
  };
  const number = (name: string, most?: number) => {
    const [one = Number.NaN, other] = readingsOf(text(name), most);
    if (Number.isNaN(one)) fault(name, request.notANumber);
    if (other !== undefined) fault(name, request.twoReadings(writtenNumber(one), writtenNumber(other)));
    if (Math.abs(one) > Number.MAX_SAFE_INTEGER) fault(name, request.tooLarge);
    return one;
  };
  return {
    text,
    optional,
    number,
    whole(name) {
      if (!/^\d+$/.test(text(name))) fault(name, request.notWhole);
      if (Number(text(name)) > Number.MAX_SAFE_INTEGER) fault(name, request.tooLarge);
      return Number(text(name));
    },
    fault,
    check() {
      if (faults.size === 0) return;
      const said = [...faults].map(([name, message]) => `body.${name}: ${message}`);
      throw new ApiError("invalid_request", said.join("; "));
    },
  };
}

/** The highest value of a coordinate. */
export const MOST_DEGREES = 180;

/**
 * One mark between digits with three digits after it: "1,000" is a thousand to some people, and one to
 * others.
 */
const IN_TWO_WAYS = /^(-?[1-9]\d{0,2})[.,](\d{3})$/;

/**
 * Returns the numbers that a person may have meant: one number, or two for a text like "1,000" or "1.000".
 * Returns none for text that is not a number or has several marks, like "1,000.50". A reading above `most`
 * cannot be meant: "13.405" is only one longitude.
 */
export function readingsOf(text: string, most = Number.POSITIVE_INFINITY): number[] {
  const typed = text.trim().replace("−", "-");
  if (!/^-?\d+([.,]\d+)?$/.test(typed)) return [];
  const fraction = Number(typed.replace(",", "."));
  const [, before, behind] = IN_TWO_WAYS.exec(typed) ?? [];
  const whole = Number(`${before}${behind}`);
  return before === undefined || Math.abs(whole) > most ? [fraction] : [whole, fraction];
}

/** Writes a number so that it has one reading: a fraction of three digits gets one more. */
export function writtenNumber(value: number): string {
  const text = String(value).includes("e") ? value.toFixed(20).replace(/0+$/, "") : String(value);
  return IN_TWO_WAYS.test(text) ? `${text}0` : text;
}
