import { z } from "zod";
import type { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { type Fields, fieldsOf } from "./forms.ts";
import type { Outcome, Visit } from "./page.ts";
import { CONSOLE, isConsolePath, RENEW } from "./places.ts";

/** The field of every form that says as whom it was written: their account id. */
export const WRITER = "person";

/** A form that came in after the session's end, as it is carried from page to page until it is sent again. */
const kept = z.object({
  path: z.string().refine(isConsolePath),
  fields: z.array(z.tuple([z.string(), z.string()])).max(2_000),
});

/** What is kept of a form that is to be sent again to this page. */
function keep(path: string, sent: Fields): string {
  return JSON.stringify({ path, fields: sent.pairs().filter(([name]) => name !== "csrf") });
}

/** A hidden field with a kept form; nothing without one. */
export function keptField(text: string): Html | undefined {
  return text === "" ? undefined : html`<input type="hidden" name="kept" value=${text} />`;
}

/**
 * The page that holds a form back: `ended`, until the session is renewed; `stale`, until it is sent again
 * with the token of the session that there is by now. It is never sent without the person's doing.
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

/** Whether a form was written while somebody else was signed in than who is by now. */
export function isOfAnother({ session }: Visit, sent: Fields): boolean {
  const writer = sent.get(WRITER);
  return session !== undefined && writer !== "" && writer !== session.account_id;
}

/** The page that says that a form was written as somebody else. It cannot be sent from there. */
export function foreignForm({ texts: { kept: words, errors }, session, own }: Visit): Outcome {
  return {
    status: 403,
    title: words.foreignTitle,
    content: html`<p>${words.foreign(session?.email ?? "")}</p><p>${words.foreignHow}</p>
      <p><a class="button" href=${own(CONSOLE)}>${errors.home}</a></p>`,
  };
}

/**
 * The page from which a kept form is sent again by who is signed in and wrote it; nothing when there is none,
 * or it is not one of ours.
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
 * The page for a form that got no answer, from which it is sent again as it is: whether it was done is known
 * only where it was not begun.
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
