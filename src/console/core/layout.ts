import { type Html, html } from "../../html/html.ts";
import type { Assets } from "./assets.ts";
import { noticeIn } from "./forms/form_token.ts";
import { creditBanner, header } from "./header.ts";
import type { Back, NoticeId, Page, Visit } from "./page.ts";

/** What a page is put into. */
export type Frame = {
  visit: Visit;
  assets: Assets;
  pages: readonly Page[];
  page?: Page | undefined;
  title: string;
  back?: Back | undefined;
  content: Html;
};

/** A part of a page that cannot be brought up to date is left as it is. */
const noSwap = [204, 304, "4xx", "5xx"];
const HTMX = JSON.stringify({ includeIndicatorCSS: false, history: false, mode: "same-origin", noSwap });
/** Minutes before its end at which a session's end is announced. */
const ANNOUNCED_MINUTES = 2;

/** The whole document around a page's content. */
export function layout(frame: Frame): Html {
  const { visit, assets, title, back, content } = frame;
  const { texts } = visit;
  const notice = noticeOf(visit);
  return html`<html lang=${texts.language}>
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <meta name="robots" content="noindex" />
      <meta name="htmx-config" content=${HTMX} />
      <title>${title} · ${texts.name}</title>
      <link rel="stylesheet" href=${assets.style} />
      <link rel="icon" href=${assets.icon} type="image/svg+xml" />
      <script src=${assets.script} data-htmx=${assets.htmx} defer></script>
    </head>
    <body>
      <a class="skip" href="#content">${texts.skip}</a>
      ${header(frame)}
      ${sessionEnd(visit)}
      ${creditBanner(frame)}
      <main id="content" tabindex="-1">
        ${back && html`<p class="back"><a href=${back.to}><span aria-hidden="true">← </span>${back.text}</a></p>`}
        ${notice && visit.failure === undefined && html`<p class="notice" role="status">${notice}</p>`}
        <h1>${title}</h1>
        ${content}
      </main>
    </body>
  </html>`;
}

/** What was done just now. That nobody is signed in is true where it is so, and has no browser's token. */
function noticeOf({ texts: { notices }, query, session, formToken, now }: Visit): string | undefined {
  const { notice = "" } = query;
  if (notice === "signed_out" && session === undefined) return notices.signed_out;
  const name = noticeIn(notice, formToken, now) ?? "";
  return Object.hasOwn(notices, name) ? notices[name as NoticeId] : undefined;
}

/**
 * The announcement that the session ends soon. A style sheet shows it when it is time; the script shows it
 * too, counts, and renews without leaving the page.
 */
function sessionEnd(visit: Visit): Html | undefined {
  const { session, texts, own, now } = visit;
  if (session === undefined) return undefined;
  const seconds = Math.max(0, Math.floor((Date.parse(session.expires_at) - now.getTime()) / 1000));
  const minutes = Math.max(0, Math.floor(seconds / 60) - ANNOUNCED_MINUTES);
  return html`<aside class="session-end ends-in-${minutes}" aria-label=${texts.sessionEnd.label} data-session-seconds=${seconds}
    data-renew=${own("/v1/auth/refresh")} data-renewed=${texts.sessionEnd.renewed} data-over=${texts.sessionEnd.over}>
    <p role="status" data-session-text>${texts.sessionEnd.soon}</p>
    <a class="button" href=${own("/v1/auth/refresh/console")} target="_blank" data-session-renew>${texts.sessionEnd.renew}</a>
  </aside>`;
}
