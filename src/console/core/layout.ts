import { MOST_WAITING } from "../../accounts/sessions/session_routes.ts";
import type { ApiError } from "../../errors.ts";
import { type Html, html, renderDocument } from "../../html/html.ts";
import type { Reply } from "../../http/replies.ts";
import { appearanceLink } from "./appearance.ts";
import type { Assets } from "./assets.ts";
import { inWords, noticeIn, sentence } from "./forms.ts";
import { icon, iconOf } from "./icons.ts";
import { WRITER } from "./kept_forms.ts";
import type { Acting, Back, NoticeId, Page, PageFile, Title, Visit } from "./page.ts";
import { ACCOUNT, addressFor, CONSOLE, isOffered, sameFor } from "./places.ts";
import { letterOf, shortcutHelp } from "./shortcuts.ts";

/** A page's content, and what surrounds it. */
export type Frame = {
  visit: Visit;
  assets: Assets;
  pages: readonly Page[];
  page?: Page | undefined;
  title: string | Title;
  back?: Back | undefined;
  /** The other origin to which a form of the page may lead. */
  leadsTo?: string | undefined;
  content: Html;
};

/** After these statuses, htmx leaves a part of the open page unchanged: the part could not be updated. */
const noSwap = [204, 304, "4xx", "5xx"];
const HTMX = JSON.stringify({ includeIndicatorCSS: false, history: false, mode: "same-origin", noSwap });
/** Pages announce the end of the session this many minutes in advance. */
const ANNOUNCED_MINUTES = 2;

function layout(frame: Frame): Html {
  const { visit, assets, title, back, content } = frame;
  const { texts } = visit;
  const notice = noticeOf(visit);
  return html`<html lang=${texts.language} data-theme=${visit.theme}>
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content=${visit.theme ?? "light dark"} />
      <meta name="robots" content="noindex" />
      <meta name="htmx-config" content=${HTMX} />
      <title>${waitingIn(visit)}${typeof title === "string" ? title : title.text} · ${texts.name}</title>
      ${visit.isNew ? assets.inline.element : html`<link rel="stylesheet" href=${assets.style} />`}
      <link rel="icon" href=${assets.icon} type="image/svg+xml" />
      <script src=${assets.script} data-htmx=${assets.htmx} defer></script>
    </head>
    <body>
      <a class="skip" href="#content">${texts.skip}</a>
      ${header(frame)}
      ${sessionEnd(visit)}
      ${creditBanner(frame)}
      <main id="content" tabindex="-1">
        ${back && html`<p class="back"><a href=${back.to}>${icon("back")}<bdi>${back.text}</bdi></a></p>`}
        ${notice && visit.failure === undefined && html`<p class="notice" role="status">${notice}</p>`}
        <h1>${typeof title === "string" ? title : title.heading}</h1>
        ${content}
      </main>
      <footer class="foot">${shortcuts(frame)}${appearanceLink(visit)}</footer>
    </body>
  </html>`;
}

/** Returns the number of requests that wait for the person, for the title of the browser's tab. */
function waitingIn({ acting }: Visit): string {
  return acting === undefined || acting.waiting === 0 ? "" : `(${acting.waiting}) `;
}

/** Returns a notice that has a valid proof. The sign-out notice needs only that nobody is signed in. */
function noticeOf({ texts: { notices }, query, session, formToken, now }: Visit): string | undefined {
  const { notice = "" } = query;
  if (notice === "signed_out" && session === undefined) return notices.signed_out;
  const name = noticeIn(notice, formToken, now) ?? "";
  return Object.hasOwn(notices, name) ? notices[name as NoticeId] : undefined;
}

/** Returns the announcement of the session's end. A style sheet shows it only shortly before the end. */
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

type Header = Pick<Frame, "visit" | "pages" | "page">;

/** Returns the navigation, the account that the person acts for, and the sign-out button. */
export function header(frame: Header): Html {
  const { visit } = frame;
  const { texts, session, acting, at, own } = visit;
  const isComplete = session?.onboarding_step === "complete";
  const home = session !== undefined && acting === undefined ? own(ACCOUNT) : at("/");
  return html`<header class="top">
    <a class="brand" href=${home}><svg class="logo" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><path d="M7 0h18a7 7 0 0 1 7 7v18a7 7 0 0 1-7 7H7a7 7 0 0 1-7-7V7a7 7 0 0 1 7-7z" /><path d="M9 8h7a8 8 0 0 1 0 16H9zm4 4v8h3a4 4 0 0 0 0-8z" /></svg><span>${texts.name}</span></a>
    ${isComplete && acting !== undefined && navigation(frame)}
    ${isComplete && who(frame)}
    ${session && !isComplete && html`<div class="who"><span class="email">${session.email}</span>${signOut(frame)}</div>`}
  </header>`;
}

/** Returns the navigation, which narrow screens show behind a button. */
function navigation({ visit, pages, page }: Header): Html {
  const { texts, at, acting } = visit;
  const entries = entriesFor(visit, pages);
  return html`<button type="button" class="quiet menu-button" popovertarget="menu">${icon("menu")}${texts.navigation.menu}</button>
    <nav id="menu" popover aria-label=${texts.navigation.label}><ul>
      ${entries.map((entry) => {
        const path = entry.page.path.slice(CONSOLE.length) || "/";
        return html`<li data-letter=${letterOf(entry.page.id)}><a href=${at(path)} aria-current=${currentOf(entry, page?.path)}>${iconOf(entry.page.id)}${entry.label(texts)}${acting && countOf(entry, acting, texts)}</a></li>`;
      })}
    </ul></nav>`;
}

/** Returns the entries of the navigation for the account that the person acts for, in order. */
function entriesFor(visit: Visit, pages: readonly Page[]): Entry[] {
  return pages
    .flatMap((each) => (each.navigation === undefined ? [] : [{ page: each, ...each.navigation }]))
    .filter((entry) => isOffered(entry.page, visit, visit.acting))
    .sort((a, b) => a.order - b.order);
}

/** Returns the help for keyboard shortcuts, on pages with a navigation. */
function shortcuts({ visit, pages }: Header): Html | undefined {
  if (visit.session?.onboarding_step !== "complete" || visit.acting === undefined) return undefined;
  const entries = entriesFor(visit, pages);
  return shortcutHelp(
    visit,
    entries.map(({ page: { id }, label }) => ({ id, label: label(visit.texts) })),
  );
}

/** Returns how many requests wait, if any, and says so to people who cannot see the page. */
function countOf({ count }: Entry, acting: Acting, { navigation }: Visit["texts"]): Html | undefined {
  const number = count?.(acting) ?? 0;
  if (number === 0) return undefined;
  return html`${" "}<span class="count">${number === MOST_WAITING ? `${number}+` : number}<span class="hidden-label"> ${navigation.waiting}</span></span>`;
}

type Entry = { page: Page } & NonNullable<Page["navigation"]>;

/** Returns an entry's `aria-current`: `page` on the entry's page, `true` on pages that belong to it. */
function currentOf({ page, also = [] }: Entry, path = ""): "page" | "true" | undefined {
  if (page.path === path) return "page";
  const parts = page.path === CONSOLE ? [] : [page.path, ...also];
  return parts.some((part) => `${path}/`.startsWith(`${part}/`)) ? "true" : undefined;
}

function who(frame: Header): Html {
  const { visit, page } = frame;
  const { texts, session, acting, at } = visit;
  const words = texts.acting;
  const accounts = session?.accounts ?? [];
  return html`<div class="who">
    <button type="button" class="quiet" popovertarget="who">
      <span class="hidden-label">${words.label} </span><span class="name"><bdi>${acting === undefined ? words.nobody : nameOf(acting, frame)}</bdi></span>
      ${acting && acting.organization_name !== null && html`<span class="role">, ${words.roles[acting.role]}</span>`}
    </button>
    <div id="who" popover>
      <p class="email">${words.signedInAs} ${session?.email}</p>
      ${accounts.length > 1 && html`<p id="who-label">${words.choose}</p>`}
      ${
        accounts.length > 1 &&
        html`<ul class="plain-list" aria-labelledby="who-label">${accounts.map(
          (
            each,
          ) => html`<li><a href=${sameFor(each, visit, frame)} aria-current=${each === acting && "true"}><bdi>${nameOf(each, frame)}</bdi></a>
          ${each.organization_name !== null && html`<span class="quiet"> ${words.roles[each.role]}</span>`}</li>`,
        )}</ul>`
      }
      <p><a href=${at(ACCOUNT.slice(CONSOLE.length))} aria-current=${page?.path === ACCOUNT && "page"}>${words.yourAccount}</a></p>
      ${signOut(frame)}
    </div>
  </div>`;
}

function nameOf({ organization_name }: Acting, { visit: { session } }: Header): string {
  if (organization_name !== null) return organization_name;
  const { first_name, last_name, email } = session ?? {};
  return [first_name, last_name].filter(Boolean).join(" ") || (email ?? "");
}

function signOut({ visit }: Header): Html {
  const { texts, own, cookie, session } = visit;
  return html`<form method="post" action=${own("/console/sign-out")}>
    <input type="hidden" name="form" value="sign_out" />
    <input type="hidden" name=${WRITER} value=${session?.account_id} />
    <input type="hidden" name="csrf" value=${cookie("csrf")} />
    <button class="quiet" type="submit">${texts.signOut.button}</button>
  </form>`;
}

/** Returns a banner if the current account's credit is low or exhausted, except on the credit page. */
export function creditBanner({ visit, page }: Header): Html | undefined {
  const { acting, texts } = visit;
  const level = acting?.credit;
  if (acting === undefined || level === null || level === "enough" || page?.id === "credit") return undefined;
  return html`<aside class=${`credit-banner ${level}`} aria-label=${texts.credit.title}>
    <p><strong>${texts.credit.levels[level ?? "low"]}</strong> <a href=${addressFor(acting, visit, "/credit")}>${texts.credit.bannerLink}</a></p>
  </aside>`;
}

function policy(styles: string, leadsTo = ""): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src ${styles}`,
    "img-src 'self'",
    "connect-src 'self'",
    `form-action 'self' ${leadsTo}`.trim(),
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** Headers of every page. Pages may load from and send to this origin only. */
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": policy("'self'"),
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  // With a stricter policy, browsers would send a form with `Origin: null`.
  "referrer-policy": "same-origin",
};

/**
 * Returns the reply that contains a page. A browser that comes from elsewhere gets the style sheet with the
 * page, so that it draws the page one request earlier. Its next page then loads the file.
 */
export function pageReply(frame: Frame, status = 200): Reply {
  const styles = frame.visit.isNew ? `'self' ${frame.assets.inline.source}` : "'self'";
  const headers = { ...HEADERS, "content-security-policy": policy(styles, frame.leadsTo) };
  return { status, headers, body: renderDocument(layout(frame)) };
}

/** Returns the reply that contains a file. Browsers save the file and never display it. */
export function fileReply({ name, type, content, rest }: PageFile): Reply {
  if (!/^[\w-][\w.-]*$/.test(name)) {
    throw new Error("A file's name may contain only letters, digits, `.`, `_` and `-`");
  }
  const headers = {
    ...HEADERS,
    "content-type": type,
    "content-disposition": `attachment; filename="${name}"`,
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  };
  return { status: 200, headers, body: content, ...(rest && { rest }) };
}

/** Returns a redirect that browsers follow with `GET`, also after a `POST`. */
export function redirectReply(location: string): Reply {
  return { status: 303, headers: { ...HEADERS, location }, body: "" };
}

/** Returns a reply without content, after which the browser leaves the part of the page unchanged. */
export function unchangedReply(): Reply {
  return { status: 204, headers: {}, body: "" };
}

/** Returns a reply that refuses an update. The browser then marks the part of the page as out of date. */
export function refusedPartReply({ session }: Visit): Reply {
  return { status: session === undefined ? 401 : 403, headers: {}, body: "" };
}

/** Returns the reply that contains the error page. */
export function errorReply(frame: Omit<Frame, "title" | "content">, error: ApiError): Reply {
  const { texts, at, own, acting, session } = frame.visit;
  const home = acting === undefined && session !== undefined ? own(ACCOUNT) : at("/");
  const { title, explain } = texts.errors.pages[error.code] ?? texts.errors.other;
  return pageReply(
    {
      ...frame,
      title,
      content: html`<p>${explain ?? sentence(inWords(texts, error.message))}</p><p><a class="button" href=${home}>${texts.errors.home}</a></p>`,
    },
    error.status,
  );
}
