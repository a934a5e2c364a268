import { ApiError } from "../../errors.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import { newId } from "../../ids.ts";
import type { Fields } from "../core/forms.ts";
import { WRITER } from "../core/kept_forms.ts";
import { refusal, type Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";

/** The parts of a form on this page. */
export type FormParts = {
  /** The form's name among the page's `forms`. */
  name: string;
  content?: Piece;
  /** The label of the form's button. */
  submit: Piece;
  beside?: Piece;
  /** The button's style. `danger` is for actions that cannot be undone. */
  tone?: "primary" | "quiet" | "danger";
  /** True for forms that create something: a second submission of the same form creates nothing more. */
  once?: boolean;
  hidden?: Record<string, string | undefined>;
  /** If true, a script submits the form automatically. */
  autoSubmit?: boolean;
};

/** Returns a form that is sent to its own page, with this visit's CSRF token. */
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

/** Returns the submitted form's idempotency key, or "" if the form needs a new one. */
function keyOf({ failure }: Visit, of: string): string {
  return failure?.form === of && failure.isSpent !== true ? failure.typed.get("key") : "";
}

/** Reads form fields and collects their errors. */
export type FieldReader = {
  /** Returns a field's text. Adds an error if the field is empty. */
  text(name: string): string;
  optional(name: string): string;
  /** Returns a field's number. Adds an error if the text can mean two numbers of at most `most`. */
  number(name: string, most?: number): number;
  whole(name: string): number;
  /** Adds an error to a field. Only the field's first error is kept. */
  fault(name: string, message: string): void;
  /** Throws `invalid_request` if there are errors. Names the fields as the API's own errors do. */
  check(): void;
};

/** Returns a reader of a form's fields. */
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

/** The highest absolute value of a coordinate, in degrees. */
export const MOST_DEGREES = 180;

/** Numbers with one separator before three digits: some people read "1,000" as a thousand, others as one. */
const IN_TWO_WAYS = /^(-?[1-9]\d{0,2})[.,](\d{3})$/;

/**
 * Returns the numbers that a person may have meant: two for text like "1,000" or "1.000". Returns none for
 * text that is not a number or has several separators. Omits numbers above `most`: as a longitude, "13.405"
 * can mean only one number.
 */
export function readingsOf(text: string, most = Number.POSITIVE_INFINITY): number[] {
  const typed = text.trim().replace("−", "-");
  if (!/^-?\d+([.,]\d+)?$/.test(typed)) return [];
  const fraction = Number(typed.replace(",", "."));
  const [, before, behind] = IN_TWO_WAYS.exec(typed) ?? [];
  const whole = Number(`${before}${behind}`);
  return before === undefined || Math.abs(whole) > most ? [fraction] : [whole, fraction];
}

/** Formats a number so that the text can mean only this number: "1.234" becomes "1.2340". */
export function writtenNumber(value: number): string {
  const text = String(value).includes("e") ? value.toFixed(20).replace(/0+$/, "") : String(value);
  return IN_TWO_WAYS.test(text) ? `${text}0` : text;
}
