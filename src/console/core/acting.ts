import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { Powers } from "../../http/authenticate.ts";
import type { Page, Visit } from "./page.ts";
import { CONSOLE, consolePath } from "./places.ts";

/** An account that somebody may act for, and with which role. */
export type Acting = SessionAnswer["accounts"][number];

/** For whom who is signed in acts: the named account, else their own. None where they are no member. */
export function actingFor(
  session: SessionAnswer | undefined,
  account = session?.account_id,
): Acting | undefined {
  return session?.accounts.find(({ account_id }) => account_id === account);
}

/** What who is signed in may do for an account; for the service only as themselves. */
export function powersOf(session: Visit["session"], acting: Acting | undefined): Powers {
  const isForThemselves = acting !== undefined && acting.account_id === session?.account_id;
  return {
    role: acting?.role ?? null,
    serviceAdministrator: isForThemselves && session?.service_administrator === true,
  };
}

/** Whether a page is for somebody who acts for this account. */
export function isOffered({ about, operations: [first] }: Page, visit: Visit, acting?: Acting): boolean {
  if (about === "organization" && acting?.organization_name == null) return false;
  return first === undefined || visit.may(first, acting);
}

/**
 * Where the same page is for another account that the person may act for: the page itself, or where it is
 * about one thing the list above it; home where the role does not allow these.
 */
export function sameFor(acting: Acting, visit: Visit, { page, pages }: Places): string {
  const here = page?.path.startsWith(CONSOLE) ? page.path.split("/") : [];
  const above = here.map((_, place) => here.slice(0, here.length - place).join("/"));
  const found = above
    .map((path) => pages.find((each) => each.path === path))
    .find((each) => each !== undefined && !each.path.includes("{") && isOffered(each, visit, acting));
  return addressFor(acting, visit, found?.path.slice(CONSOLE.length) || "/");
}

type Places = { page?: Page | undefined; pages: readonly Page[] };

/** The address of a console page for an account that the person may act for. */
export function addressFor({ account_id }: Acting, { session, own }: Visit, path = "/"): string {
  return own(consolePath(account_id === session?.account_id ? undefined : account_id, path));
}
