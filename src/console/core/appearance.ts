import { type Html, html } from "../../html/html.ts";
import { WRITER } from "./kept_forms.ts";
import { themes, type Visit } from "./page.ts";
import { CONSOLE } from "./places.ts";

/** The path of the page on which a person chooses a theme. */
export const APPEARANCE = `${CONSOLE}/appearance`;

/** Returns the link to the page with the themes. That page leads back to the current page. */
export function appearanceLink({ texts, own, here, path, query }: Visit): Html {
  const back = path === APPEARANCE ? query.back : here.slice(own("").length);
  return html`<a href=${own(APPEARANCE, { back })}>${texts.appearance.title}</a>`;
}

/** Returns the form with a button for each theme. It works without scripts, and needs no session. */
export function themeForm(visit: Visit, back: string | undefined): Html {
  const { texts, own, theme, session, cookie, formToken } = visit;
  const words = texts.appearance;
  const token = session === undefined ? formToken : cookie("csrf");
  return html`<form method="post" action=${own(APPEARANCE)} class="theme" aria-label=${words.title}>
    <input type="hidden" name="form" value="theme" />
    <input type="hidden" name=${WRITER} value=${session?.account_id} />
    <input type="hidden" name="csrf" value=${token} />
    <input type="hidden" name="back" value=${back} />
    ${["auto", ...themes].map(
      (each) =>
        html`<button type="submit" class="quiet" name="theme" value=${each} aria-pressed=${String(
          each === (theme ?? "auto"),
        )}>${words.names[each as keyof typeof words.names]}</button>`,
    )}
  </form>`;
}
