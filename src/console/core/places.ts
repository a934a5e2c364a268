import Router from "@koa/router";
import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { Powers } from "../../http/authenticate.ts";
import type { Acting, Page, Visit } from "./page.ts";

/** The path of the console, below the base URL. */
export const CONSOLE = "/console";
/** The page about the signed-in person. */
export const ACCOUNT = `${CONSOLE}/account`;
/** The page on which people enter an invitation's code. */
export const ACCEPT_INVITATION = `${CONSOLE}/invitations/accept`;
/**
 * Pages whose paths receive the sign-in cookie and the refresh cookie. Browsers send these cookies to no
 * other path.
 */
export const SIGN_IN = "/v1/auth/email/console";
export const ENTER_CODE = `${SIGN_IN}/code`;
export const RENEW = "/v1/auth/refresh/console";

const FOR = /^\/console\/for\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=\/|$)/;

/** Splits a path into the account that it names and the path without it. */
export function splitAccount(path: string): { account: string | undefined; path: string } {
  const account = FOR.exec(path)?.[1];
  return account === undefined ? { account, path } : { account, path: path.replace(FOR, CONSOLE) };
}

/** Returns a console page's path for the account that the person acts for. */
export function consolePath(account: string | undefined, path: string): string {
  const start = account === undefined ? CONSOLE : `${CONSOLE}/for/${account}`;
  return path === "/" ? start : `${start}${path}`;
}

/** Returns a path with its query, without `undefined` members. */
export function withQuery(path: string, query: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs)}`;
}

/**
 * Returns the console path that a request names as its way back, or the home page. The path must be valid as
 * it is: it cannot lead to another host or out of the console.
 */
export function wayBack(asked: string | undefined): string {
  return asked !== undefined && isConsolePath(asked) ? asked : CONSOLE;
}

/** Whether this is the path of a console page, perhaps with a query. */
export function isConsolePath(path: string): boolean {
  const form =
    /^\/console(\/[A-Za-z0-9_~%@:+,=-][A-Za-z0-9._~%@:+,=-]*)*\/?(\?[A-Za-z0-9._~%@:+,=&/!*'()-]*)?$/;
  return path.length <= 2_000 && form.test(path) && !/%(2f|5c|2e|0|1)/i.test(path.split("?")[0] ?? "");
}

/** Creates a function that finds the page of a path, and the path's parameters, with Koa's router. */
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
 * Returns the account that the signed-in person acts for: the named account, or by default their own.
 * `undefined` if they are not a member of it.
 */
export function actingFor(
  session: SessionAnswer | undefined,
  account = session?.account_id,
): Acting | undefined {
  return session?.accounts.find(({ account_id }) => account_id === account);
}

/**
 * Returns the powers of the signed-in person for an account. They are service administrators only when they
 * act for their own account.
 */
export function powersOf(session: Visit["session"], acting: Acting | undefined): Powers {
  const isForThemselves = acting !== undefined && acting.account_id === session?.account_id;
  return {
    role: acting?.role ?? null,
    serviceAdministrator: isForThemselves && session?.service_administrator === true,
  };
}

/** Whether a person who acts for this account may see a page. */
export function isOffered({ about, operations: [first] }: Page, visit: Visit, acting?: Acting): boolean {
  if (about === "organization" && acting?.organization_name == null) return false;
  return first === undefined || visit.may(first, acting);
}

/**
 * Returns the address of the same page for another account of the person. If the page is about one thing,
 * returns the list above it instead. If the role allows neither, returns the home page.
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

/** Returns the address of a console page for an account that the person may act for. */
export function addressFor({ account_id }: Acting, { session, own }: Visit, path = "/"): string {
  return own(consolePath(account_id === session?.account_id ? undefined : account_id, path));
}
