import { z } from "zod";
import { type Html, html } from "../../html/html.ts";
import { type Fields, fieldsOf } from "./fields.ts";
import type { Outcome, Visit } from "./page.ts";
import { isConsolePath, RENEW } from "./places.ts";

/** A form that came in after the session's end, as it is carried from page to page until it is sent again. */
const kept = z.object({
  path: z.string().refine(isConsolePath),
  fields: z.array(z.tuple([z.string(), z.string()])).max(2_000),
});

/** What is kept of a form that is to be sent again to this page. */
export function keep(path: string, sent: Fields): string {
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

/** The page from which a kept form is sent again; nothing when there is none, or it is not one of ours. */
export function sendAgain(visit: Visit, text: string): Outcome | undefined {
  const read = text === "" ? undefined : kept.safeParse(readJson(text)).data;
  if (read === undefined) return undefined;
  const { texts } = visit;
  const fields = fieldsOf(read.fields)
    .pairs()
    .filter(([name]) => name !== "csrf");
  return {
    title: texts.kept.title,
    content: html`<p>${texts.kept.explain}</p>
      <form method="post" action=${visit.own(read.path)}>
        ${fields.map(([name, value]) => html`<input type="hidden" name=${name} value=${value} />`)}
        <input type="hidden" name="csrf" value=${visit.cookie("csrf")} />
        <p class="actions">
          <button type="submit" autofocus>${texts.kept.again}</button>
          <a href=${visit.own(read.path)}>${texts.kept.discard}</a>
        </p>
      </form>`,
  };
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
