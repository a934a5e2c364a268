import { z } from "zod";
import type { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { type Fields, fieldsOf } from "./forms.ts";
import type { Outcome, Page, Visit } from "./page.ts";
import { CONSOLE, isConsolePath, RENEW } from "./places.ts";

/** Hidden field of every form: the account id of the person who filled in the form. */
export const WRITER = "person";

/** A form that was submitted after the session expired, and that pages pass on until it is sent again. */
const kept = z.object({
  path: z.string().refine(isConsolePath),
  fields: z.array(z.tuple([z.string(), z.string()])).max(2_000),
});

type Shown = { page: Page; visit: Visit };

function keep(path: string, sent: Fields): string {
  return JSON.stringify({ path, fields: sent.pairs().filter(([name]) => name !== "csrf") });
}

/**
 * Returns whether a page's forms can be kept. A form that leads to another origin cannot be: the policy of
 * the page that sends it again would stop the redirect after the form's action.
 */
export function keepsForms(page: Page): boolean {
  return !("leadsTo" in page);
}

/** Returns a hidden field with the serialized form, or `undefined` if there is none. */
export function keptField(text: string): Html | undefined {
  return text === "" ? undefined : html`<input type="hidden" name="kept" value=${text} />`;
}

/**
 * Returns the page that keeps a submitted form. With `ended`, it keeps the form until the session is renewed.
 * With `stale`, the person can send the form again with the session's token. No page sends it automatically.
 * If the page's forms cannot be kept, the person gets the page again.
 */
export function keptForm({ page, visit }: Shown, sent: Fields, why: "ended" | "stale"): Outcome {
  const path = pathOf(visit);
  if (!keepsForms(page)) {
    return { to: why === "ended" ? visit.own(RENEW, { return_to: path }) : visit.here };
  }
  if (why === "stale") return sendAgain(visit, keep(path, sent)) ?? { to: path };
  const { texts } = visit;
  return {
    title: texts.kept.endedTitle,
    content: html`<p>${texts.kept.ended}</p>
      <form method="post" action=${visit.own(RENEW)}>
        <input type="hidden" name="form" value="renew" />
        <input type="hidden" name="csrf" value=${visit.cookie("csrf")} />
        <input type="hidden" name="return_to" value=${path} />
        ${keptField(keep(path, sent))}
        <button type="submit" autofocus>${texts.kept.renew}</button>
      </form>`,
  };
}

/** Returns whether a different person was signed in when the form was filled in. */
export function isOfAnother({ session }: Visit, sent: Fields): boolean {
  const writer = sent.get(WRITER);
  return session !== undefined && writer !== "" && writer !== session.account_id;
}

/** Returns a page that says that a different person filled in the form. The page cannot send the form. */
export function foreignForm({ texts: { kept: words, errors }, session, own }: Visit): Outcome {
  return {
    status: 403,
    title: words.foreignTitle,
    content: html`<p>${words.foreign(session?.email ?? "")}</p><p>${words.foreignHow}</p>
      <p><a class="button" href=${own(CONSOLE)}>${errors.home}</a></p>`,
  };
}

/**
 * Returns the page from which a person can send their kept form again. If a different person filled in the
 * form, the page does not contain it. Returns `undefined` if there is no form of this console in `text`.
 */
export function sendAgain(visit: Visit, text: string): Outcome | undefined {
  const read = text === "" ? undefined : kept.safeParse(readJson(text)).data;
  if (read === undefined) return undefined;
  const { texts } = visit;
  const held = fieldsOf(read.fields);
  if (isOfAnother(visit, held)) return foreignForm(visit);
  const fields = held.pairs().filter(([name]) => name !== "csrf");
  return {
    title: texts.kept.title,
    content: html`<p>${texts.kept.explain}</p>
      ${again(visit, visit.own(read.path), [...fields, ["csrf", visit.cookie("csrf") ?? ""]])}`,
  };
}

type Unanswered = { visit: Visit; sent: Fields; isSubmitted: boolean; error: ApiError };

/**
 * Returns the page to show if a form's action failed without a definite result. The page can send the form
 * again. It says that nothing was done only if the action had not started.
 */
export function unansweredForm({ visit, sent, isSubmitted, error }: Unanswered) {
  const { kept: words, errors } = visit.texts;
  return {
    title: (errors.pages[error.code] ?? errors.other).title,
    content: html`<p>${isSubmitted ? words.unknown(sent.get("key") !== "") : words.undone} ${words.isKept}</p>
      ${again(visit, visit.here, sent.pairs())}`,
  };
}

function again({ texts: { kept: words } }: Visit, action: string, fields: [string, string][]): Html {
  return html`<form method="post" action=${action}>
    ${fields.map(([name, value]) => html`<input type="hidden" name=${name} value=${value} />`)}
    <p class="actions">
      <button type="submit" autofocus>${words.again}</button>
      <a href=${action}>${words.discard}</a>
    </p>
  </form>`;
}

function pathOf(visit: Visit): string {
  const root = visit.own("");
  return visit.here.slice(root.length);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
