import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { parseCookie, stringifySetCookie } from "cookie";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { CookieChange, CookieName } from "../route.ts";

/** Reads and writes the service's cookies. */
export type Cookies = {
  /**
   * Returns a cookie's value from a `Cookie` header. Throws `invalid_request` if the header has the name
   * twice with different values: another host of the same site may have set one of them, and nobody can tell
   * which.
   */
  read(header: string | undefined, name: CookieName): string | undefined;
  /** Returns a cookie's value, or `undefined` if `read` would refuse the header. */
  readUnique(header: string | undefined, name: CookieName): string | undefined;
  /**
   * Returns the value under the cookie's former name. Returns `undefined` if `read` returns the same value,
   * or if the header has the name twice with different values.
   */
  readFormer(header: string | undefined, name: CookieName): string | undefined;
  /** Returns a cookie's name as sent to browsers. */
  nameOf(name: CookieName): string;
  /** Returns `Set-Cookie` values: one, or one for each of the cookie's two names. */
  write(change: CookieChange): string[];
  /**
   * Returns `Set-Cookie` values that remove the cookies of other hosts and paths, if the request has a name
   * twice with different values. The service's own cookies stay. Without this, the other host could lock the
   * person out until they delete the cookies themselves.
   */
  removeForeign(request: IncomingMessage): string[];
};

/** Maximum number of cookies that a response removes. Proxies limit the size of a response's headers. */
const MAX_REMOVED = 24;
/** How many segments of the request's path can be the path of a removed cookie. */
const REMOVED_DEPTH = 3;

/** Cookies of one session. If a browser sends one under its `__Host-` name, the others need theirs too. */
const OF_SESSION: readonly CookieName[] = ["session", "refresh", "csrf"];

/**
 * Returns the function that names cookies for a base URL. With https and without a path, the names begin with
 * `__Host-`, so that browsers accept the cookies from this host only (RFC 6265bis §4.1.3.2).
 */
export function createCookieNames(names: Names, baseUrl: string): (name: CookieName) => string {
  const { protocol, pathname } = new URL(baseUrl);
  const prefix = protocol === "https:" && pathname === "/" ? "__Host-" : "";
  return (name) => prefix + names.cookie(name);
}

/**
 * Creates the cookies for a base URL. They are `SameSite=Lax`, limited to the base URL's path, and `Secure`
 * except for plain http on this machine. Scripts can read only the CSRF cookie.
 *
 * A cookie without the `__Host-` prefix has a path: the browser sends the refresh cookie only to the refresh
 * call, and the sign-in cookie only to the calls that send and verify codes.
 *
 * Cookies with the prefix are also written under their former names, without the prefix. The former version
 * reads these, so that sessions survive an upgrade and a rollback. Another host of the site can set a former
 * name. Therefore it counts only if the browser has no cookie of a session under its `__Host-` name.
 */
export function createCookies(names: Names, baseUrl: string): Cookies {
  const base = new URL(baseUrl);
  const secure = !(base.protocol === "http:" && isLoopback(base.hostname));
  const domains = domainsOf(base.hostname);
  const root = base.pathname.replace(/\/+$/, "");
  const paths = {
    session: `${root}/`,
    csrf: `${root}/`,
    refresh: `${root}/v1/auth/refresh`,
    sign_in: `${root}/v1/auth/email`,
    theme: `${root}/`,
  };
  const cookieNames = Object.keys(paths) as CookieName[];
  const nameOf = createCookieNames(names, baseUrl);

  /** Returns the name under which a header's cookie counts. */
  function countingName(header: string | undefined, name: CookieName): string {
    const together = OF_SESSION.includes(name) ? OF_SESSION : [name];
    const isNew = together.some((each) => valuesOf(header, nameOf(each)).size > 0);
    return isNew ? nameOf(name) : names.cookie(name);
  }

  function read(header: string | undefined, name: CookieName): string | undefined {
    const own = countingName(header, name);
    const values = valuesOf(header, own);
    if (values.size > 1) {
      throw new ApiError("invalid_request", `cookie: ${own} is sent twice with different values`);
    }
    return [...values][0];
  }

  function readUnique(header: string | undefined, name: CookieName): string | undefined {
    return uniqueOf(header, countingName(header, name));
  }

  function readFormer(header: string | undefined, name: CookieName): string | undefined {
    const former = uniqueOf(header, names.cookie(name));
    return former === readUnique(header, name) ? undefined : former;
  }

  function removeForeign({ headers: { cookie }, url = "/" }: IncomingMessage): string[] {
    if (cookie === undefined) return [];
    return cookieNames
      .filter((name) => valuesOf(cookie, names.cookie(name)).size > 1)
      .flatMap((name) =>
        prefixesOf(url)
          .flatMap((path) => domains.map((domain) => ({ path, ...domain })))
          .filter((place) => "domain" in place || place.path !== paths[name])
          .map((place) =>
            stringifySetCookie({ name: names.cookie(name), value: "", maxAge: 0, secure, ...place }),
          ),
      )
      .slice(0, MAX_REMOVED);
  }

  function write({ name, value, maxAgeSeconds }: CookieChange): string[] {
    const maxAge = value === "" ? 0 : maxAgeSeconds;
    const rest = { value, maxAge, httpOnly: name !== "csrf", sameSite: "lax", secure } as const;
    const former = { name: names.cookie(name), path: paths[name] };
    const isPrefixed = nameOf(name) !== former.name;
    const places = isPrefixed ? [{ name: nameOf(name), path: "/" }, former] : [former];
    return places.map((place) => stringifySetCookie({ ...place, ...rest }));
  }

  return { nameOf, read, readUnique, readFormer, removeForeign, write };
}

function uniqueOf(header: string | undefined, name: string): string | undefined {
  const values = valuesOf(header, name);
  return values.size > 1 ? undefined : [...values][0];
}

/** Returns the different values that a `Cookie` header has for a name. */
function valuesOf(header: string | undefined, name: string): Set<string | undefined> {
  const pairs = (header ?? "").split(";").filter((pair) => pair.split("=", 1)[0]?.trim() === name);
  return new Set(pairs.map((pair) => parseCookie(pair)[name]));
}

/**
 * Returns the `Domain` attributes of cookies that browsers send to a host: the host itself, each parent
 * domain, and none. Browsers ignore the domains that they reserve, such as `co.uk`.
 */
function domainsOf(hostname: string): { domain?: string }[] {
  const labels = hostname.split(".");
  if (isIP(hostname) !== 0 || hostname.startsWith("[")) return [{}];
  const own = labels.slice(0, -1).map((_, index) => ({ domain: labels.slice(index).join(".") }));
  return [...own, {}];
}

/** Returns the paths of cookies that browsers send to a URL (RFC 6265 §5.1.4), the shortest first. */
function prefixesOf(url: string): string[] {
  const segments = (url.split(/[?#]/, 1)[0] ?? "").split("/").slice(1, REMOVED_DEPTH + 1);
  const prefixes = segments.flatMap((_, index) => {
    const prefix = `/${segments.slice(0, index + 1).join("/")}`;
    return [prefix, `${prefix}/`];
  });
  return [...new Set(["/", ...prefixes])].filter((path) => /^[!-:<-~]+$/.test(path) && !path.includes("//"));
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}
