import type { Html } from "../../../html/html.ts";
import { fieldsOf } from "../../core/forms/fields.ts";
import type { Visit } from "../../core/page.ts";
import { type Field, textField } from "./fields.ts";

const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/;

/**
 * A field for a day and a time. It has no zone of its own: what is typed is UTC, which its label says; where
 * scripts run they show and take it in the reader's zone, say so instead, and send it with a zone.
 */
export function momentField(visit: Visit, { label, value, ...field }: Field): Html {
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

/** The moment that such a field sent; `undefined` when it is none. What has no zone is UTC. */
export function readMoment(text: string): Date | undefined {
  const date = new Date(LOCAL.test(text) ? `${text}Z` : text);
  return text === "" || Number.isNaN(date.getTime()) ? undefined : date;
}

/**
 * The moments of fields that came in a page's address, as the API takes them. What is no moment is said at
 * its field, and stands for nothing.
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

/** Says at a field that came in a page's address what is wrong with it. */
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

/** The visit as it is, with the field's text as the input shows it. */
function shown(visit: Visit, { form, name }: { form: string; name: string }, text: string): Visit {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form) return visit;
  const others = failure.typed.pairs().filter(([each]) => each !== name);
  return { ...visit, failure: { ...failure, typed: fieldsOf([...others, [name, text]]) } };
}
