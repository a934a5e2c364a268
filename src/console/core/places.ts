import Router from "@koa/router";
import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { Powers } from "../../http/authenticate.ts";
import type { Acting, Page, Visit } from "./page.ts";

/** The console's path below the base URL. */
export const CONSOLE = "/console";
/** The path of the page about the signed-in person. */
export const ACCOUNT = `${CONSOLE}/account`;
/** The path of the page on which people enter an invitation code. */
export const ACCEPT_INVITATION = `${CONSOLE}/invitations/accept`;
/** Browsers send the sign-in cookie and the refresh cookie only to the following paths. */
export const SIGN_IN = "/v1/auth/email/console";
export const ENTER_CODE = `${SIGN_IN}/code`;
export const RENEW = "/v1/auth/refresh/console";

const FOR = /^\/console\/for\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=\/|$)/;

/** Splits a path into the account that it names and the rest of the path. */
export function splitAccount(path: string): { account: string | undefined; path: string } {
  const account = FOR.exec(path)?.[1];
  return account === undefined ? { account, path } : { account, path: path.replace(FOR, CONSOLE) };
}

/** Returns a console page's path for an account. `undefined` means the person's own account. */
export function consolePath(account: string | undefined, path: string): string {
  const start = account === undefined ? CONSOLE : `${CONSOLE}/for/${account}`;
  return path === "/" ? start : `${start}${path}`;
}

/** Returns a path with a query. Omits parameters that are `undefined`. */
export function withQuery(path: string, query: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs)}`;
}

/**
 * Returns the path to return to after a form, or the home page if `asked` is no console path. The browser
 * follows the path unchanged, so it must not lead to another host or out of the console.
 */
export function wayBack(asked: string | undefined): string {
  return asked !== undefined && isConsolePath(asked) ? asked : CONSOLE;
}

/** The longest path contains the signed request of a product to connect. Browsers and proxies accept 8 kB. */
const MAX_PATH = 6_000;

/** Returns whether this is the path of a console page, with or without a query. */
export function isConsolePath(path: string): boolean {
  const form =
    /^\/console(\/[A-Za-z0-9_~%@:+,=-][A-Za-z0-9._~%@:+,=-]*)*\/?(\?[A-Za-z0-9._~%@:+,=&/!*'()-]*)?$/;
  return path.length <= MAX_PATH && form.test(path) && !/%(2f|5c|2e|0|1)/i.test(path.split("?")[0] ?? "");
}

/** Returns a function that finds a path's page and parameters. */
export function createFindPage(pages: readonly Page[]) {
  const router = new Router({ sensitive: true });
  const known = new Map(pages.map((page) => [page.id, page]));
  for (const { id, path } of pages) router.get(id, path.replaceAll(/\{(\w+)\}/g, ":$1"), () => {});
  return (path: string): { page: Page; params: Record<string, string> } | undefined => {
    const [layer] = router.match(path, "GET").path;
    const page = known.get(layer?.name ?? "");
    if (layer === undefined || page === undefined) return undefined;
    return { page, params: layer.params(path, layer.captures(path)) };
  };
}

/**
 * Returns the account that the person acts for, by default their own. Returns `undefined` if they are not a
 * member of it.
 */
export function actingFor(
  session: SessionAnswer | undefined,
  account = session?.account_id,
): Acting | undefined {
  return session?.accounts.find(({ account_id }) => account_id === account);
}

/** Returns a person's powers in an account. They are service administrator only in their own account. */
export function powersOf(session: Visit["session"], acting: Acting | undefined): Powers {
  const isForThemselves = acting !== undefined && acting.account_id === session?.account_id;
  return {
    role: acting?.role ?? null,
    serviceAdministrator: isForThemselves && session?.service_administrator === true,
  };
}

/** Returns whether a person who acts for this account may see a page. */
export function isOffered({ about, operations: [first] }: Page, visit: Visit, acting?: Acting): boolean {
  if (about === "organization" && acting?.organization_name == null) return false;
  return first === undefined || visit.may(first, acting);
}

/**
 * Returns the URL of the same page for a different account. For a page about one object, returns the URL of
 * the list of such objects. If the person's role does not allow that page, returns the URL of the home page.
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

/** Returns a console page's URL for an account that the person may act for. */
export function addressFor({ account_id }: Acting, { session, own }: Visit, path = "/"): string {
  return own(consolePath(account_id === session?.account_id ? undefined : account_id, path));
}
