import { type Html, html } from "../../html/html.ts";
import type { Assets } from "./assets.ts";
import type { NoticeId, Page, Visit } from "./page.ts";
import { CONSOLE } from "./places.ts";

/** What a page is put into. */
export type Frame = {
  visit: Visit;
  assets: Assets;
  pages: readonly Page[];
  page?: Page | undefined;
  title: string;
  content: Html;
};

const HTMX = JSON.stringify({ includeIndicatorCSS: false, history: false, mode: "same-origin" });
/** Minutes before its end at which a session's end is announced. */
const ANNOUNCED_MINUTES = 2;

/** The whole document around a page's content. */
export function layout(frame: Frame): Html {
  const { visit, assets, title, content } = frame;
  const { texts, query } = visit;
  const notice = texts.notices[query.notice as NoticeId];
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
      <script src=${assets.script} defer></script>
      <script src=${assets.htmx} defer></script>
    </head>
    <body>
      <a class="skip" href="#content">${texts.skip}</a>
      ${header(frame)}
      ${sessionEnd(visit)}
      <main id="content" tabindex="-1">
        ${notice && html`<p class="notice" role="status">${notice}</p>`}
        <h1>${title}</h1>
        ${content}
      </main>
    </body>
  </html>`;
}

function header({ visit, pages, page }: Frame): Html {
  const { texts, session, own, at } = visit;
  const entries = pages
    .flatMap((each) => (each.navigation === undefined ? [] : [{ page: each, ...each.navigation }]))
    .sort((a, b) => a.order - b.order);
  return html`<header class="top">
    <a class="brand" href=${at("/")}>${texts.name}</a>
    ${
      session?.onboarding_step === "complete" &&
      html`<nav aria-label=${texts.navigation.label}><ul>
        ${entries.map(
          (entry) =>
            html`<li><a href=${at(entry.page.path.slice(CONSOLE.length) || "/")} aria-current=${
              entry.page === page ? "page" : undefined
            }>${entry.label(texts)}</a></li>`,
        )}
      </ul></nav>`
    }
    ${
      session &&
      html`<div class="who"><span class="email">${session.email}</span>
      <form method="post" action=${own("/console/sign-out")}>
        <input type="hidden" name="form" value="sign_out" />
        <input type="hidden" name="csrf" value=${visit.cookie("csrf")} />
        <button class="quiet" type="submit">${texts.signOut.button}</button>
      </form></div>`
    }
  </header>`;
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
