import { type Html, html } from "../../html/html.ts";
import { type Acting, addressFor, isOffered, sameFor } from "./acting.ts";
import { WRITER } from "./forms/kept_form.ts";
import type { Frame } from "./layout.ts";
import type { Page } from "./page.ts";
import { ACCOUNT, CONSOLE } from "./places.ts";

type Header = Pick<Frame, "visit" | "pages" | "page">;

/** What is above every page: where one may go, for whom one acts, and the way out. */
export function header(frame: Header): Html {
  const { visit } = frame;
  const { texts, session, acting, at, own } = visit;
  const isComplete = session?.onboarding_step === "complete";
  const home = session !== undefined && acting === undefined ? own(ACCOUNT) : at("/");
  return html`<header class="top">
    <a class="brand" href=${home}>${texts.name}</a>
    ${isComplete && acting !== undefined && navigation(frame)}
    ${isComplete && who(frame)}
    ${session && !isComplete && html`<div class="who"><span class="email">${session.email}</span>${signOut(frame)}</div>`}
  </header>`;
}

/** Where one may go; on a narrow screen behind a button. */
function navigation({ visit, pages, page }: Header): Html {
  const { texts, at, acting } = visit;
  const entries = pages
    .flatMap((each) => (each.navigation === undefined ? [] : [{ page: each, ...each.navigation }]))
    .filter((entry) => isOffered(entry.page, visit, acting))
    .sort((a, b) => a.order - b.order);
  return html`<button type="button" class="quiet menu-button" popovertarget="menu">${texts.navigation.menu}</button>
    <nav id="menu" popover aria-label=${texts.navigation.label}><ul>
      ${entries.map((entry) => {
        const path = entry.page.path.slice(CONSOLE.length) || "/";
        return html`<li><a href=${at(path)} aria-current=${currentOf(entry, page?.path)}>${entry.label(texts)}</a></li>`;
      })}
    </ul></nav>`;
}

type Entry = { page: Page } & NonNullable<Page["navigation"]>;

/** Whether an entry is this page, or this page is a part of it. */
function currentOf({ page, also = [] }: Entry, path = ""): "page" | "true" | undefined {
  if (page.path === path) return "page";
  const parts = page.path === CONSOLE ? [] : [page.path, ...also];
  return parts.some((part) => `${path}/`.startsWith(`${part}/`)) ? "true" : undefined;
}

/** For whom one acts, the way to act for another, to what is one's own, and out. */
function who(frame: Header): Html {
  const { visit, page } = frame;
  const { texts, session, acting, at } = visit;
  const words = texts.acting;
  const accounts = session?.accounts ?? [];
  return html`<div class="who">
    <button type="button" class="quiet" popovertarget="who">
      <span class="hidden-label">${words.label} </span><span class="name">${acting === undefined ? words.nobody : nameOf(acting, frame)}</span>
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
          ) => html`<li><a href=${sameFor(each, visit, frame)} aria-current=${each === acting && "true"}>${nameOf(each, frame)}</a>
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

/** That credit runs low, or is used up, on every page of the account whose credit it is. */
export function creditBanner({ visit, page }: Header): Html | undefined {
  const { acting, texts } = visit;
  const level = acting?.credit;
  if (acting === undefined || level === null || level === "enough" || page?.id === "credit") return undefined;
  return html`<aside class=${`credit-banner ${level}`} aria-label=${texts.credit.title}>
    <p><strong>${texts.credit.levels[level ?? "low"]}</strong> <a href=${addressFor(acting, visit, "/credit")}>${texts.credit.bannerLink}</a></p>
  </aside>`;
}
