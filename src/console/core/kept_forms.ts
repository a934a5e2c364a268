import { z } from "zod";
import type { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { type Fields, fieldsOf } from "./forms.ts";
import type { Outcome, Visit } from "./page.ts";
import { CONSOLE, isConsolePath, RENEW } from "./places.ts";

/** The field of every form that contains the account id of the person who wrote it. */
export const WRITER = "person";

/** A form that was submitted after the session's end. Pages pass it on until the person sends it again. */
const kept = z.object({
  path: z.string().refine(isConsolePath),
  fields: z.array(z.tuple([z.string(), z.string()])).max(2_000),
});

/** Returns the stored text of a form that is to be sent again to this page. */
function keep(path: string, sent: Fields): string {
  return JSON.stringify({ path, fields: sent.pairs().filter(([name]) => name !== "csrf") });
}

/** Returns a hidden field with a kept form, or `undefined` without one. */
export function keptField(text: string): Html | undefined {
  return text === "" ? undefined : html`<input type="hidden" name="kept" value=${text} />`;
}

/**
 * Returns the page that keeps a form: with `ended`, until the session is renewed; with `stale`, until the
 * person sends it again with the token of the current session. The form is never sent automatically.
 */
export function keptForm(visit: Visit, sent: Fields, why: "ended" | "stale"): Outcome {
  const path = pathOf(visit);
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

/** Whether a form was written while another person was signed in. */
export function isOfAnother({ session }: Visit, sent: Fields): boolean {
  const writer = sent.get(WRITER);
  return session !== undefined && writer !== "" && writer !== session.account_id;
}

/**
 * Returns the page that says that a form was written by another person. The form cannot be sent from there.
 */
export function foreignForm({ texts: { kept: words, errors }, session, own }: Visit): Outcome {
  return {
    status: 403,
    title: words.foreignTitle,
    content: html`<p>${words.foreign(session?.email ?? "")}</p><p>${words.foreignHow}</p>
      <p><a class="button" href=${own(CONSOLE)}>${errors.home}</a></p>`,
  };
}

/**
 * Returns the page from which the signed-in person can send a form again that they wrote. Returns `undefined`
 * if there is no form, or if it is not from this console.
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
 * Returns the page for a form without an answer, from which it can be sent again unchanged. Only if the
 * action had not begun does the page know that nothing was done.
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
